import { sign as signBytes } from 'node:crypto'
import https from 'node:https'
import { EventEmitter } from 'node:events'
import MessageValidator from 'sns-validator'
import { NOW, installed } from '../frame.mjs'

export const sdk = installed('sns-validator')
export const publicKey = `-----BEGIN CERTIFICATE-----
MIICpTCCAY0CFBqaGQBmFpmVxZdEXTGy04IXbZ8DMA0GCSqGSIb3DQEBCwUAMA4x
DDAKBgNVBAMMA3NuczAgFw0yNjExMTYxMTAwMDlaGA8yMTI2MTAyMzExMDAwOVow
DjEMMAoGA1UEAwwDc25zMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA
ps6W+LiyRlK32OgprHO5F5ZNBV7gIzFeoaHcqp9QVXzcumP0geQksxUaBOJ+5sB/
xz4ZVuxcaWQFDXOFqN3LFN90roD+httU4l+Ec1OXCB5u451NxXv796I5xAL3epgS
1EnqwvFbX3T1MpTCti1FwbzVdUuXGaYDMJS3B72f9k65ndmFTGMqQng8omujzd3Q
DNsvmZdbC/caVMdHakjdrt11Ly4svEsIPzB79zNJzth4nSS3mqR2GNqsYJaTuyk9
RPV6ycfxoi+peMVcv0YH6rp+SiK1QRwcMLOwHgGycUayXuY8N6fb9UcUzN6hZBPw
mECjClMCRkUohgr7v05IOQIDAQABMA0GCSqGSIb3DQEBCwUAA4IBAQBVj+m+iq/e
0cRqOTI0MgANGPMsZQNqmhJgQIJDtUgrjOA3c/SId3SXZEA0gQosBJXzIQJyAf5I
IO7y/XxdP9iYGjUTOas2iwnddK6TC+UGOtHFS7ZSfR08z4QBy5tPMXIjUHQQimib
NEHLL3nVeaG4rTGAbxfZeArnA1dUMy8vS98d0gZiRxiD1kA43LDd9JslNiS3Qse7
G2N/ZVpKp7EXnxZUy5G1zy00WIqpJdUgDAo/wEzf2onGHt2VZMU1EX88FZpTZWoT
bAsmPT4aQgX4Lntqr+UBpUEU8VZKYbbkiVYXHpaBeNvpLNNF8TTi2bCBZI+noOdn
61Zds5XsJKOy
-----END CERTIFICATE-----
`
export const privateKey = `-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCmzpb4uLJGUrfY
6Cmsc7kXlk0FXuAjMV6hodyqn1BVfNy6Y/SB5CSzFRoE4n7mwH/HPhlW7FxpZAUN
c4Wo3csU33SugP6G21TiX4RzU5cIHm7jnU3Fe/v3ojnEAvd6mBLUSerC8VtfdPUy
lMK2LUXBvNV1S5cZpgMwlLcHvZ/2Trmd2YVMYypCeDyia6PN3dAM2y+Zl1sL9xpU
x0dqSN2u3XUvLiy8Swg/MHv3M0nO2HidJLeapHYY2qxglpO7KT1E9XrJx/GiL6l4
xVy/Rgfqun5KIrVBHBwws7AeAbJxRrJe5jw3p9v1RxTM3qFkE/CYQKMKUwJGRSiG
Cvu/Tkg5AgMBAAECggEAEKdlSlLXtblc0qKnRSj5TKy8ZtyzQGrq7vSZR/hc+Gld
ePHcKmXBRkHv6uyZd+dgj99tfztc+fFlpxNRamvZHUM2w+oWv2xsMVJmXRn2OnYe
DcqZm63GbnxmC7cHcgLMinZmIm10zncqYzuX+cFTtW/pg0BMnIpxx2q+9V5jd0n5
CqKeAo30H+CVjgp2STDc3ats6xIxM2o9cLWm5dvp/Wsy+URTd2UBHeD6Md/TbIGX
k5a0FSfXay9hnPBfozsOBG8Rm5+TWJHXKx/y/2qgM+GU/zd2tS77N5qL9C5EIT9c
Rc0OQ1HRdytRfFFbdVksnnvO8vCFRwHlyfDMKEesAwKBgQDlbtkIOE/MbY4S0zci
tTk1CtOG9XIfdclCCWD+7SgjDwSIwvper41/J0yHiFdVjZnrKdJU2CwqSVbWjYiC
6D2RIhxa4PPf/QXYMTetNpQN4TzjJPXPcu5Ym7xWx9n+eNDFKQw6yqFKMbcKaErT
p7clH36kU3FK9NFLoagvRK+8WwKBgQC6H0zVvdOUYNYZ+oCl3G4+89r34c7tBsGm
pat781MdVhVNxeJbhdvbVpPlZuIpzb9Sb8vQ3mvHogv4qLdHBUydKjGXNoeRcMtG
s2wjTY2jXm619ciks9cjmpVVJdclXd9apIDRcAxSl0Z8iLwcZrM5BX4TtUq0mrul
L0zM3gDB+wKBgDVc6dfSmSTYGmJghANrmSmwIfDS579PewcD/W5tpJc65/gTOX6K
YGPBtTgUyxNYAwPCT2xydxtCwZLXinfAIom+IFA24CIpzJEzKVr9RcRQrgO61f1x
IuSzHEQm6ZoZaZ1h5blK5ebG12bxSO4fpSZaQ+9ehQxFEuT/bYnI9QLfAoGAGNUk
Q0BYgmuJJV4u2/JVI0EV7gzKtwU3wSxJfPgyFq/tl7rXQK7TbqhWgzz+3+T7qdwQ
rYV/i9srDbo0+dzTJAUFKM+1tsn91SkLPIqUYz+uNcjdRFxaT/3H/txVoD6uFkHs
jgUNH9ffJ652qrNpJip9b9O4a/BZKOjurkbQgxECgYEAgyNMfskBeh/rhOaeYrP7
hPjpn2W5D52QqUk9GUSCH259GxWdgiuKBxZkBbv8w4GHTgXI1UqUnCCxmPMmuYSi
qkB/NMlJgf5DTDRA4MHaBDaShwJWH3k7XqJg4iOOxfr3CBzHQOzh12/fm1RTochI
g5CW5G0xDdA88tekaccT+wo=
-----END PRIVATE KEY-----
`
export const otherPrivateKey = `-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDW5+84EOgMr+Je
ks2zu7HwUsAlW457vBam7WQAOGoSP1DAHpwKAT/UMSB50zrZnPFS89q3W4wYf5yJ
lBQnoz0ya5wm3YG1HWuOO3To5ZZYUdcsUUaFTZ6WdLua7gP5GZV9Vo5kgQfqB9sW
d9mbZLhUGkByW+1u8M5yWAh8aAjwoV7lno4UlON/Yxy23u9DEv/Psx94eqW7lLV5
KBOToXFgi6QHIwRz18wSal50eR9DJL7h1pcmiLKQrFnu+K/GBqxroZgLxwNZgsat
WrFBpjcqkPem6dM+uuGE1DPURoieRtbbafPojYF7ecoogHCV99Df4m+WNHsn6Hyz
zKNZr9UlAgMBAAECggEAMcBX/R7M2cMOIN7TiDx3oS9HFF7xyWttww9KC1MEG11V
EGUFsrs/T5xf7FQeV6qho5aYl8I12KYSUzdYwyRjUnzfFZBKKue4sqDJG/GqsJ+h
tLzMGqgxgptboy5e9RgbJ30WUeYdMuzGp5jvY64Zjj7VlKP7f6d347jFnidnim0k
qmdAnjGvQxu+Gp7kPNUsq2MVMq8IqrfcYzF9z2lNYUWF39NfH6ltZmPrn/qEKOq/
U6DVJA5rHHUvrKWA/nXYzflPreW3OvMbpolbi1AStKJmlw8Kr7z44wihF+GOaU0c
YxuPMqI+1jCJaaVPakrZsSjt7pspWL5lg9vdbr+xgQKBgQDxGBUU1VeY/MUNRp1P
3BDQDBimKTMH9sfSpZBmY4imVCIpQwtdlKyMxNMrzV2tRODyWvJrgtgD0Sh/c4gI
e/Bdvx/UjyvWfbBeahMNEoTY5yI4UXfl4Wwk0GVWl0IVuZptm2SHtw6qoAc4l9Gu
XzRNcpx0r4yvrD+RVJPumE4bHQKBgQDkMVwz1w8rP2lT+KRziWfwt2QzJ6hYJ3dA
uZN5m7H9BGYejFKF85wlDS4lJ+osWasgUBWhMmCVL/P06I5SlivITH8af41jPyG8
IOi2IDiNOfcHQaRh4Kd6w6ktAZQ8t0JItwMFf/cWKHejJNnNFkLwoUQbCQ7ssOp7
+IqwHy17qQKBgQDRaaaeEvVkiGIstuJbhH4CCA+8/Fo8F6nXmUHE/b2rI7cMehS8
MzBxkWEPUfGFWCe/uymIIv24ywtPMS2+mNDezO079yQPydrRF3f2ydgkgxchLfpj
7Zq+m1j6jqWzMyUlAW2fyGxv3lKHYK+bs0w93Uhyvi0IRihs9rcL7rUhLQKBgFbP
gGgoVJj7UrKjUMyzZVtqKTBc0epXeUKiVrxYwumilsbgUzSqbKibzwZLnQaqRjPQ
w6nDZILc704oepxojNdyYphOFhe/mLHdQyqmL11qw9N64XJq6MwHS4DXrPE8Nnc7
SGb7O6CuXHUwO7uN0IGCmEpAs/DPjSUEdJ5z/fWhAoGAbtXfUF1Zz+BrXRM/a3Y7
INw/k3vBHY2O/NgjS2WGmPRliRrhMxRaMh7uYYXO9cHZHe5X025JKsBCT5gdhzkj
ZCVl/sByUiWe0rvLhOaCenZXtqiKIrEFMjodoOb4GSUIO2VJ42WtMIQEmt/7DO3G
YxFMai7dxtaKoKi/urOa3D8=
-----END PRIVATE KEY-----
`
// What is signed is the values of the envelope, not its bytes; nothing looks at the age of a message.
export const tolerance = null
export const ownBodies = true
export const contentType = 'text/plain; charset=UTF-8'

const CERTIFICATE = 'https://sns.us-east-1.amazonaws.com/SimpleNotificationService-01.pem'
const TOPIC = 'arn:aws:sns:us-east-1:123456789012:topic'

// The SDK fetches the certificate: it gets ours, from whatever address it asks, and nothing leaves the machine.
https.get = (url, answer) => {
  const response = Object.assign(new EventEmitter(), { statusCode: 200 })
  queueMicrotask(() => {
    answer(response)
    response.emit('data', Buffer.from(publicKey))
    response.emit('end')
  })
  return new EventEmitter()
}

const SIGNED = ['Message', 'MessageId', 'Subject', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type']

export const sample = ({ id, now }) => JSON.stringify(notification({ MessageId: id, Timestamp: new Date(now * 1000).toISOString() }))

const notification = (given) => ({
  Type: 'Notification',
  MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
  TopicArn: TOPIC,
  Subject: 'My First Message',
  Message: 'Hello world!',
  Timestamp: new Date(NOW * 1000).toISOString(),
  SignatureVersion: '2',
  SigningCertURL: CERTIFICATE,
  UnsubscribeURL: 'https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe',
  ...given,
})

const confirmation = (given) => ({
  ...notification({}),
  Type: 'SubscriptionConfirmation',
  Subject: undefined,
  UnsubscribeURL: undefined,
  Message: `You have chosen to subscribe to the topic ${TOPIC}.\nTo confirm, visit the SubscribeURL.`,
  Token: '2336412f37',
  SubscribeURL: 'https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f37',
  ...given,
})

/** Puts the signature into the envelope that the body holds, and leaves everything else in it as it is. */
export function sign({ body, privateKey }) {
  const envelope = JSON.parse(body)
  const names = SIGNED.filter((name) => name in envelope && (name !== 'Token' || envelope.Type !== 'Notification'))
  const text = names.map((name) => `${name}\n${envelope[name]}\n`).join('')
  const hash = envelope.SignatureVersion === '1' ? 'sha1' : 'sha256'
  envelope.Signature = signBytes(hash, Buffer.from(text), privateKey).toString('base64')
  const headers = { 'x-amz-sns-message-type': envelope.Type, 'x-amz-sns-message-id': envelope.MessageId }
  return { headers, body: JSON.stringify(envelope) }
}

export function verify({ body }) {
  return new Promise((resolve) => new MessageValidator().validate(body.toString(), (error) => resolve(!error)))
}

/** For sdk-check: a change of the message's id, which is signed. */
export function changed(body) {
  const envelope = JSON.parse(body)
  return Buffer.from(JSON.stringify({ ...envelope, MessageId: `${envelope.MessageId}0` }))
}

// Left out: messages of the type UnsubscribeConfirmation (the SDK forgets their token, AWS signs it), a subject of null and
// the names that Lambda uses (they come over no HTTP), an envelope with one name twice (the SDK takes the last).
export async function* cases({ make, basic }) {
  const made = (envelope, given) => make({ body: JSON.stringify(envelope), ...given })
  const edited = (request, change) => ({ ...request, body: Buffer.from(JSON.stringify({ ...JSON.parse(request.body), ...change })) })
  const flip = (request, at) => {
    const bytes = Buffer.from(JSON.parse(request.body).Signature, 'base64')
    bytes[at] ^= 1
    return edited(request, { Signature: bytes.toString('base64') })
  }
  const first = await made(notification({ SignatureVersion: '1' }))
  const confirm = await made(confirmation({}))

  yield { name: 'version 1', valid: true, request: first }
  yield { name: 'no subject', valid: true, request: await made(notification({ Subject: undefined })) }
  yield { name: 'subscription confirmation', valid: true, request: confirm }
  yield { name: 'subscription confirmation, version 1', valid: true, request: await made(confirmation({ SignatureVersion: '1' })) }
  yield { name: 'message with line breaks and json', valid: true, request: await made(notification({ Message: '{\n  "id": "evt_1",\n  "s": "MessageId\\nx"\n}' })) }
  yield { name: 'message in unicode', valid: true, request: await made(notification({ Message: 'héllo — 日本語 🎉 e\u0301 \u2028 <&>\'"\\', Subject: 'ünï' })) }
  yield { name: 'message large', valid: true, request: await made(notification({ Message: 'hookonce '.repeat(400) })) }
  yield { name: 'message empty', valid: true, request: await made(notification({ Message: '' })) }
  yield { name: 'china', valid: true, request: await made(notification({ SigningCertURL: CERTIFICATE.replace('us-east-1.amazonaws.com', 'cn-north-1.amazonaws.com.cn') })) }
  yield { name: 'envelope pretty-printed', valid: true, request: { ...basic, body: Buffer.from(JSON.stringify(JSON.parse(basic.body), null, 2)) } }
  yield { name: 'envelope with escapes', valid: true, request: { ...basic, body: Buffer.from(basic.body.toString().replaceAll('/', '\\/').replace('world', '\\u0077orld')) } }
  yield { name: 'what is not signed changed', valid: true, request: edited(basic, { UnsubscribeURL: 'https://example.com/' }) }

  for (const name of ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type']) {
    yield { name: `${name} changed`, valid: false, request: edited(basic, { [name]: `${JSON.parse(basic.body)[name]}0` }) }
  }
  for (const name of ['SubscribeURL', 'Token']) {
    yield { name: `${name} changed`, valid: false, request: edited(confirm, { [name]: `${JSON.parse(confirm.body)[name]}0` }) }
  }
  for (const name of ['Signature', 'SigningCertURL']) {
    yield { name: `${name} missing`, valid: false, request: edited(basic, { [name]: undefined }) }
  }
  yield { name: 'subject left out', valid: false, request: edited(basic, { Subject: undefined }) }
  yield { name: 'last bit of the signature flipped', valid: false, request: flip(basic, 255) }
  yield { name: 'signature empty', valid: false, request: edited(basic, { Signature: '' }) }
  yield { name: 'signed with another key', valid: false, request: await make({ privateKey: otherPrivateKey }) }
  yield { name: 'version 1 said to be 2', valid: false, request: edited(first, { SignatureVersion: '2' }) }
  yield { name: 'version 2 said to be 1', valid: false, request: edited(basic, { SignatureVersion: '1' }) }
  yield { name: 'version 3', valid: false, request: await made(notification({ SignatureVersion: '3' })) }
  const elsewhere = {
    'certificate over http': CERTIFICATE.replace('https:', 'http:'),
    'certificate of another host': 'https://sns.us-east-1.amazonaws.com.example.com/x.pem',
    'certificate of a host that ends alike': 'https://example-sns.us-east-1.amazonaws.com/x.pem',
    'certificate behind a user': 'https://sns.us-east-1.amazonaws.com@example.com/x.pem',
    'certificate of another service': 'https://s3.us-east-1.amazonaws.com/x.pem',
    'certificate that is no pem': 'https://sns.us-east-1.amazonaws.com/x.txt',
    'certificate at another port': 'https://sns.us-east-1.amazonaws.com:8443/x.pem',
  }
  for (const [name, url] of Object.entries(elsewhere)) {
    yield { name, valid: false, request: await made(notification({ SigningCertURL: url })) }
  }
  yield { name: 'no json', valid: false, request: { ...basic, body: Buffer.from('Hello world!') } }
}
