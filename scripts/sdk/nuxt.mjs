// nuxt-webhook-validators, installed bare: its files are asked for by name, and what they import of Nuxt is stood in for.
import { register } from 'node:module'
import { bare } from './bare.mjs'

export const sdk = bare('nuxt-webhook-validators')

const standIns = {
  '#imports': 'export const useRuntimeConfig = (event) => ({ webhook: event.config })',
  h3: 'export const getRequestHeaders = (event) => event.headers; export const readRawBody = () => {}; export const createError = ({ message }) => new Error(message)',
  scule: 'export const snakeCase = (text) => text',
}
const hook = `
  const standIns = ${JSON.stringify(standIns)}
  export async function resolve(name, context, next) {
    if (!context.parentURL?.includes('nuxt-webhook-validators') || !(name in standIns)) return next(name, context)
    return { url: 'data:text/javascript,' + encodeURIComponent(standIns[name]), shortCircuit: true }
  }`
register(`data:text/javascript,${encodeURIComponent(hook)}`)

/** A validator, as a function of the request and of the configuration that Nuxt would have for it. */
export async function validator(file, name) {
  const found = await import(`./bare/node_modules/nuxt-webhook-validators/dist/runtime/server/lib/validators/${file}.js`)
  return ({ headers, body }, settings) =>
    found[name]({ headers, req: { clone: () => ({ text: async () => body.toString() }) }, config: { [file]: settings } })
}
