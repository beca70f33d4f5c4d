import '@shopify/shopify-api/adapters/node'
import { ApiVersion, shopifyApi } from '@shopify/shopify-api'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@shopify/shopify-api')
export const recorded = 'elsewhere'
export const secret = 'shpss_0123456789abcdef0123456789abcdef'
export const tolerance = null

// The SDK asks for these beside the signature; they prove nothing.
const BESIDE = {
  'x-shopify-topic': 'orders/create',
  'x-shopify-shop-domain': 'shop.myshopify.com',
  'x-shopify-api-version': '2026-01',
  'x-shopify-webhook-id': 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
}

const shopify = (secret) =>
  shopifyApi({
    apiKey: 'unused',
    apiSecretKey: secret,
    scopes: [],
    hostName: 'hooks.example.com',
    apiVersion: Object.values(ApiVersion)[0],
    isEmbeddedApp: false,
    logger: { log: () => {} },
  })

export function sign({ body, id, secret }) {
  return { ...BESIDE, 'x-shopify-event-id': id, 'x-shopify-hmac-sha256': hmac('sha256', secret, body, 'base64') }
}

export async function verify({ headers, body, method, url }, { secret }) {
  const rawRequest = { headers: { ...BESIDE, ...headers }, method, url: new URL(url).pathname }
  const said = await shopify(secret).webhooks.validate({ rawBody: body.toString(), rawRequest, rawResponse: {} })
  return said.valid
}
