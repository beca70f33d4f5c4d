import { hmac } from '../frame.mjs'
import { sdk, validator } from '../nuxt.mjs'

const validate = await validator('fourthwall', 'isValidFourthwallWebhook')

export { sdk }
export const kind = 'source'
export const secret = 'fourthwall-webhook-secret-0123456789abcdef'
export const otherSecret = 'fourthwall-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Fourthwall-Hmac-SHA256', encoding: 'base64' }
export const leftOut = { 'empty body': 'the library wants a body' }

export const sample = ({ id, now }) => JSON.stringify({ testMode: false, id, webhookId: 'webhook_1', shopId: 'shop_1', type: 'ORDER_PLACED', apiVersion: 'V1', createdAt: new Date(now * 1000).toISOString(), data: { id: 'order_1' } })

export function sign({ body, id, secret }) {
  return { 'X-Fourthwall-Hmac-SHA256': hmac('sha256', secret, body, 'base64') }
}

export function verify(request, { secret }) {
  return validate(request, { secretKey: secret })
}

