import adyen from '@adyen/api-library'
import { installed } from '../frame.mjs'

export const sdk = installed('@adyen/api-library')
export const recorded = 'elsewhere'
export const secret = '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056'
export const tolerance = null
export const signedBy = 'sdk'

const validator = new adyen.hmacValidator()

const items = (body) => JSON.parse(body).notificationItems.map((item) => item.NotificationRequestItem)

export const sample = ({ id }) =>
  JSON.stringify({
    live: 'false',
    notificationItems: [
      { NotificationRequestItem: { pspReference: id, originalReference: '', merchantAccountCode: 'M', merchantReference: 'order-1', amount: { value: 2000, currency: 'EUR' }, eventCode: 'AUTHORISATION', success: 'true' } },
    ],
  })

export function sign({ body, secret }) {
  const data = JSON.parse(body)
  for (const { NotificationRequestItem: item } of data.notificationItems) {
    item.additionalData = { ...item.additionalData, hmacSignature: validator.calculateHmac(item, secret) }
  }
  return { headers: {}, body: JSON.stringify(data) }
}

export function verify({ body }, { secret }) {
  const found = items(body)
  return found.length > 0 && found.every((item) => validator.validateHMAC(item, secret))
}

/** For sdk-check: a change of the last item's reference, which is signed. */
export function changed(body) {
  const data = JSON.parse(body)
  data.notificationItems.at(-1).NotificationRequestItem.pspReference += '0'
  return Buffer.from(JSON.stringify(data))
}
