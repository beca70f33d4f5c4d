// n8n's trigger nodes check what providers send them.
import { bare, load } from './bare.mjs'

export const sdk = bare('n8n-nodes-base')

// The nodes describe their forms with these.
const absent = ['n8n-workflow', 'change-case', 'lodash/get', 'lodash/omit', 'lodash/upperFirst']

/** A file of dist/nodes. */
export const node = (file) => load('n8n-nodes-base', `dist/nodes/${file}`, absent)

/** What a node asks n8n for while it handles a request. */
export function context({ headers, body, url }, { data = {}, credentials = {}, parameters = {} } = {}) {
  const parsed = () => {
    try {
      return JSON.parse(body)
    } catch {
      return {}
    }
  }
  const response = { status: () => response, send: () => response, end: () => response }
  return {
    getRequestObject: () => ({ headers, header: (name) => headers[name.toLowerCase()], rawBody: body, body: parsed() }),
    getResponseObject: () => response,
    getHeaderData: () => headers,
    getBodyData: parsed,
    getNode: () => ({ id: 'node' }),
    getNodeWebhookUrl: () => url,
    getNodeParameter: (name, fallback) => parameters[name] ?? fallback,
    getWorkflowStaticData: () => data,
    getCredentials: async () => credentials,
    helpers: { returnJsonArray: (items) => items },
  }
}
