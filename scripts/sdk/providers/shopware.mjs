import { WebCryptoHmacSigner } from '../node_modules/@shopware-ag/app-server-sdk/dist/esm/signer.js'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@shopware-ag/app-server-sdk')
export const secret = 'shopware-shop-secret-0123456789abcdef'
export const otherSecret = 'shopware-shop-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'shopware-shop-signature', encoding: 'hex' }

export const sample = ({ id, now }) => JSON.stringify({ data: { payload: [{ entity: 'product', operation: 'insert', primaryKey: 'product_1' }], event: 'product.written' }, source: { url: 'https://shop.example.com', shopId: 'shop_1', eventId: id }, timestamp: now })

export function sign({ body, secret }) {
  return { 'shopware-shop-signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return new WebCryptoHmacSigner().verify(headers['shopware-shop-signature'], body.toString(), secret)
}
