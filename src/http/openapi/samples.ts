import type { JsonObject } from './schema.ts'

/** Values by the names of their fields, so that the samples of all operations speak of one gateway. */
const byName: Readonly<Record<string, unknown>> = {
  customer_id: 'cus_01M7XP7Z0G4A9B2C6D8E1F3H5J',
  display_name: 'Ada Lovelace',
  admin_id: 'adm_01M7XP7Z0G4A9B2C6D8E1F3H5J',
  session_id: 'ses_01M7XP7Z0G4A9B2C6D8E1F3H5J',
  key_id: 'key_01M7XP7Z1S8J3K6M0N2P4Q7R9T',
  node_id: 'node_01M7XP7Z0G4A9B2C6D8E1F3H5J',
  runtime_id: 'rt_01M7XP7Z0G4A9B2C6D8E1F3H5J',
  request_id: 'req_01M7XP7Z4WJ6D1G5H2C8E3F7AB',
  job_id: 'job-1',
  command_id: 'cmd_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  batch_id: 'bat_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  token_id: 'enr_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  range: '192.168.1.0/24',
  join_id: 'join_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  pull_id: 'pull_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  ref: 'hf:bartowski/Llama-3.1-8B-Instruct-GGUF:Q4_K_M',
  words: 'pink whale truth memory space shrug',
  webhook_id: 'msg_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  entry_id: 'led_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  event_id: 'evt_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  model_profile_id: 'mp_01M7XP7Z5B6Y2V0Q3T8N4K9RWS',
  credit_id: 'invoice-17',
  model: 'llama-3.1-8b',
  model_id: 'llama-3.1-8b',
  upstream_model: 'llama3.1:8b',
  id: 'llama-3.1-8b',
  aliases: ['llama3.1:8b'],
  allowed_models: ['llama-*'],
  denied_models: [],
  node_scope: null,
  name: 'workbench',
  url: 'http://192.168.1.21:8080',
  webhook_url: 'https://hooks.example/penstock',
  node_class: 'standard',
  reason: 'a new computer',
  amount_wei: '1000000000000000000',
  prices: ['1000000000000', '2000000000000'],
  query: 'Which city is the capital of France?',
  documents: ['Paris is the capital of France.', 'Berlin is the capital of Germany.'],
  messages: [{ role: 'user', content: 'Hello!' }],
  input: 'Hello!',
  prompt: 'Once upon a time',
  content: 'Hello!',
  text: 'Hello!',
  older_than_days: 90,
  confirm: 'PURGE AUDIT EVENTS',
  version: 'svc-private-transport-v1',
  algorithm: 'x25519-hkdf-sha256-chacha20poly1305',
  nonce: 'AAAAAAAAAAAAAAAA',
}

/** Where a name says nothing: by the form that the schema asks for. */
const byPattern: readonly string[] = [
  '0',
  '1',
  '200',
  'A',
  'GET',
  'a',
  'json',
  'chat',
  '2026-11-20T16:00:00.000Z',
  `0x${'5c'.repeat(32)}`,
  `0x${'5c'.repeat(20)}`,
  '5c'.repeat(32),
  'A'.repeat(22),
  'A'.repeat(43),
  'A'.repeat(86),
  `${'A'.repeat(43)}=`,
  'gateway-1',
  '3c:7c:3f:01:02:03',
  '07:00-23:00',
]

const formats: Readonly<Record<string, string>> = {
  'date-time': '2026-11-20T16:00:00.000Z',
  uri: 'https://gateway.example',
}

interface Schema extends JsonObject {
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly examples?: readonly unknown[]
  readonly pattern?: string
  readonly format?: string
  readonly minimum?: number
  readonly minLength?: number
}

const typesOf = ({ type }: Schema): readonly string[] => (typeof type === 'string' ? [type] : (type ?? []))
const has = (schema: Schema, type: string) => typesOf(schema).includes(type)
/** Deeper than any schema here: one that refers to itself must end. */
const depthMax = 12

function textOf(schema: Schema): string {
  const { pattern, format, minLength = 0 } = schema
  if (format !== undefined && formats[format] !== undefined) return formats[format]
  const form = pattern === undefined ? null : new RegExp(pattern, 'u')
  const found = form === null ? 'text' : byPattern.find((each) => form.test(each))
  return (found ?? 'text').padEnd(minLength, 'x')
}

/** Whether a value by its name is of the type that this schema wants. */
function fits(schema: Schema, value: unknown): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some((each) => fits(each, value))
  if (schema.enum !== undefined || schema.const !== undefined) return false
  if (value === null) return has(schema, 'null')
  if (Array.isArray(value)) {
    return has(schema, 'array') && (schema.items === undefined || value.every((item) => fitsItem(schema.items, item)))
  }
  if (typeof value === 'number') return has(schema, 'integer') || has(schema, 'number')
  if (typeof value !== 'string') return has(schema, 'object')
  return has(schema, 'string') && new RegExp(schema.pattern ?? '', 'u').test(value)
}

const fitsItem = (items: Schema | undefined, item: unknown): boolean =>
  items === undefined || Object.keys(items).length === 0 || fits(items, item)

/** A value that the schema allows, as a person would write it. */
export function sampleOf(given: JsonObject, name = '', depth = 0): unknown {
  const schema = given as Schema
  if (schema.examples !== undefined) return schema.examples[0]
  if (schema.const !== undefined) return schema.const
  if (schema.default !== undefined) return schema.default
  const named = byName[name]
  if (named !== undefined && fits(schema, named)) return named
  if (schema.enum !== undefined) return schema.enum.find((value) => value !== null) ?? null
  const choice = schema.anyOf?.find((each) => !has(each, 'null')) ?? schema.anyOf?.[0]
  if (choice !== undefined) return sampleOf(choice, name, depth)
  if (depth >= depthMax) return null
  if (schema.allOf !== undefined) {
    return Object.assign({}, ...schema.allOf.map((part) => sampleOf(part, name, depth + 1)))
  }
  if (has(schema, 'object') || schema.properties !== undefined) {
    const members = Object.entries(schema.properties ?? {})
    return Object.fromEntries(members.map(([member, part]) => [member, sampleOf(part, member, depth + 1)]))
  }
  if (has(schema, 'array')) return [sampleOf(schema.items ?? {}, name, depth + 1)]
  if (has(schema, 'integer') || has(schema, 'number')) return Math.max(schema.minimum ?? 0, 1)
  if (has(schema, 'boolean')) return false
  if (has(schema, 'string')) return textOf(schema)
  return has(schema, 'null') ? null : 'text'
}

/** Samples for bodies without a schema, by media type. */
const byMediaType: Readonly<Record<string, string>> = {
  'text/event-stream': 'event: hello\ndata: {}\n\n',
  'text/javascript': '// The node agent, for Bun\n',
  'text/plain': 'svc_ready 1\n',
  'application/octet-stream': '(bytes)',
}

interface Media extends JsonObject {
  readonly schema?: JsonObject
}

/** A sample in this media type; undefined if none can be shown. */
export function sampleOfMedia(type: string, { schema = {} }: Media): unknown {
  if (type === 'text/csv') {
    const columns = String(schema.description ?? '').replace(/^.*: /, '')
    return `${columns
      .split(', ')
      .map((column) => `"${column}"`)
      .join(',')}\r\n`
  }
  return byMediaType[type] ?? sampleOf(schema)
}
