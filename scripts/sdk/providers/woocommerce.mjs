import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { WooCommerceTrigger } = node('WooCommerce/WooCommerceTrigger.node.js')

export { sdk }
export const kind = 'source'
export const secret = 'woocommerce-webhook-secret-0123456789abcdef'
export const otherSecret = 'woocommerce-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-WC-Webhook-Signature', encoding: 'base64' }

export const sample = ({ id, now }) => JSON.stringify({ id: 1, order_key: id, status: 'processing', date_created_gmt: new Date(now * 1000).toISOString(), total: '20.00' })

export function sign({ body, id, secret }) {
  return { 'X-WC-Webhook-Topic': 'order.created', 'X-WC-Webhook-ID': '1', 'X-WC-Webhook-Delivery-ID': id, 'X-WC-Webhook-Signature': hmac('sha256', secret, body, 'base64') }
}

export async function verify(request, { secret }) {
  const said = await new WooCommerceTrigger().webhook.call(context(request, { data: { secret } }))
  return said.workflowData !== undefined
}
