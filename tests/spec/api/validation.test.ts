import { describe, expect, test } from 'bun:test'
import { ollamaOperations, routeOf } from '../../../src/actors/operations/registry.ts'
import { sampleOf } from '../../../src/http/openapi/samples.ts'
import { openApiSchema } from '../../../src/http/openapi/schema.ts'
import { type Schema, secretText, wrongBodies, wrongValues } from '../../support/clients/wrong-values.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { sampleOf as operationSample } from '../../support/pools/operation-samples.ts'
import { fixture } from '../../support/run/fixture.ts'
import { describedPaths } from '../../support/walks/described-paths.ts'

interface Media {
  readonly schema: Schema & { readonly $ref?: string }
  readonly example?: unknown
}
interface Parameter {
  readonly name: string
  readonly in: string
  readonly schema: Schema
}
interface Operation {
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> }
  readonly parameters?: readonly Parameter[]
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

/** The library's own messages, all of which say what it "expected". */
const ofTheLibrary = /\b(?:un)?expected\b/i
const without = '1000000'
/** What a node signs has codes of its own (§15). */
const stamp = ['signed_at', 'nonce', 'signature_ed25519']

/** Described for clients, and checked by the node alone. */
const passedOn = /^messages\[0\]\.tool_calls/
/** So says the description of a field that a door does not check (docs/decisions/0032). */
const unchecked =
  /: (the gateway passes it on|the node gets it in another form|for the gateway alone|accepted, and passed on)/

const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_OLLAMA_LISTEN: '127.0.0.1:0',
      SVC_PROCESSES: '1',
      SVC_ADMIN_RPM_PER_TOKEN: without,
      SVC_PUBLIC_RPM_PER_IP: without,
    },
  }),
)
const customer = await gateway.customer()
const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as Document

/** Who a route asks for, and the headers that come before a body. */
function credentials(path: string): Record<string, string> {
  const node = {
    'x-svc-node-id': 'node_0',
    'x-svc-node-timestamp': '1',
    'x-svc-node-nonce': 'A'.repeat(22),
    'x-svc-node-signature': 'A'.repeat(86),
  }
  const reader = { 'x-svc-customer-id': customer.customerId, 'x-svc-customer-token': customer.customerToken }
  if (path.startsWith('/v1/admin/')) return { 'x-svc-admin-token': gateway.tokens.admin }
  if (/^\/v1\/(?:billing|receipts|api\/private-inference)/.test(path)) return reader
  if (path.startsWith('/v1/node-agent/keys')) return node
  return { authorization: `Bearer ${customer.key}` }
}

/** Every part of a chat that has a schema. */
const mixed = {
  model: 'council',
  messages: [{ role: 'user', content: 'Hi' }],
  svc: { mixture: { strategy: 'synthesize', experts: [{ model: 'a' }], aggregator: { model: 'a' } } },
}

const place = (path: string) =>
  path
    .replace('{receipt_hash}', `0x${'0'.repeat(64)}`)
    .replace('{machine}', 'node')
    .replaceAll(/\{\w+\}/g, '0')
const operations = () =>
  Object.entries(describedPaths(document.paths)).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )

interface Told {
  readonly message: string
  readonly code: string
  readonly param: string | null
}

/** What a caller reads, whatever the envelope. */
async function refusalOf(response: Response): Promise<Told> {
  const text = await response.text()
  expect(text).not.toContain(secretText)
  const { error, detail, code, svc, errors } = JSON.parse(text)
  if (typeof error === 'string') return { message: error, ...svc }
  if (error !== undefined) return { code: error.svc.code, param: error.svc.param, ...error }
  for (const fault of errors ?? []) expect(fault.detail).not.toMatch(ofTheLibrary)
  return { message: detail, code, param: null }
}

/** `absentIfEmpty`: fields that count as absent where they are empty. */
async function expectSentences(
  url: string,
  method: string,
  path: string,
  media: Media,
  absentIfEmpty: readonly string[] = [],
): Promise<number> {
  const schema = media.schema.$ref === undefined ? media.schema : document.components.schemas.ChatRequest
  const sample = media.example ?? mixed
  if (schema === undefined) throw new Error(`${path}: no schema`)
  let refused = 0
  for (const { field, value, body } of wrongBodies(schema, sample, (part) => sampleOf(part as never))) {
    const [top = ''] = /^[^.[]*/.exec(field) ?? []
    const { description = '' } = (schema.properties?.[top] ?? {}) as { readonly description?: string }
    if (passedOn.test(field) || unchecked.test(description)) continue
    const response = await fetch(url + place(path), {
      method,
      headers: { 'content-type': 'application/json', ...credentials(path) },
      body: JSON.stringify(body),
    })
    const { message, code, param } = await refusalOf(response)
    const story = [path, field, value, response.status, code, message] as const
    expect(story).toEqual([
      path,
      field,
      value,
      400,
      expect.stringMatching(/^(?:invalid_request|mixture_invalid)$/),
      message,
    ])
    expect(message).not.toMatch(ofTheLibrary)
    expect(message).toStartWith(`${field === '' ? 'The body' : field} `)
    const isAbsent = absentIfEmpty.includes(field) && (value === '' || value === null)
    expect(message).toMatch(isAbsent ? / is missing\. Send .+\.$/ : / must be .+; you sent .+\.$/)
    expect(message).not.toContain('that matches')
    if (param !== null) expect(param).toBe(field)
    refused++
  }
  return refused
}

describe('§2: what is wrong with a body is said in a sentence that names the field, on every route', () => {
  test('of the gateway', async () => {
    let refused = 0
    let routes = 0
    for (const { path, method, operation } of operations()) {
      const media = operation.requestBody?.content['application/json']
      if (media === undefined) continue
      refused += await expectSentences(gateway.url, method, path, media)
      routes++
    }
    expect(routes).toBeGreaterThan(30)
    expect(refused).toBeGreaterThan(1_000)
  })

  test('of Ollama’s listener', async () => {
    for (const operation of ollamaOperations) {
      const { model, body } = operationSample(operation)
      const schema = openApiSchema(operation.schema) as Schema
      const media = { schema, example: { model, ...body } }
      const refused = await expectSentences(gateway.ollamaUrl ?? '', 'POST', routeOf(operation), media, ['model'])
      expect(refused).toBeGreaterThan(10)
    }
  })
})

test('§2: what is wrong with a query is said in a sentence that names the parameter, on every route', async () => {
  let refused = 0
  for (const { path, method, operation } of operations()) {
    const asked = (operation.parameters ?? []).filter(({ in: at, name }) => at === 'query' && !stamp.includes(name))
    if (method !== 'GET') continue
    for (const { name, schema } of asked) {
      const numbers = wrongValues(schema).filter((value) => typeof value === 'number')
      for (const value of [...(schema.type === 'integer' ? numbers.map(String) : []), secretText.repeat(9)]) {
        const url = `${gateway.url}${place(path)}?${new URLSearchParams({ [name]: value })}`
        const response = await fetch(url, { headers: credentials(path) })
        const { message, code } = await refusalOf(response)
        expect([path, name, value, response.status, code]).toEqual([path, name, value, 400, 'invalid_parameter'])
        expect([path, message]).toEqual([
          path,
          expect.stringMatching(new RegExp(`^${name} must be .+; you sent .+\\.$`)),
        ])
        expect(message).not.toMatch(ofTheLibrary)
        refused++
      }
    }
  }
  expect(refused).toBeGreaterThan(100)
})
