import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { chat } from '../../../src/actors/operations/chat.ts'
import { operations as inferenceOperations } from '../../../src/actors/operations/registry.ts'
import { problemKinds } from '../../../src/errors.ts'
import { bracedPath, RouteTable } from '../../../src/http/frame/route-table.ts'
import { DescribedChatRequest } from '../../../src/http/openapi/chat-request.ts'
import { requestExamples, streamExamples, wholeExamples } from '../../../src/http/openapi/transcripts.ts'
import { ChatChunk, ChatCompletion, ChatRequest, chatRoles } from '../../../src/protocol/wire/inference/chat.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

interface Operation {
  readonly responses: Record<string, { content?: Record<string, { schema: object; examples?: object }> }>
  readonly security?: readonly Record<string, readonly string[]>[]
  readonly requestBody?: { readonly content: Record<string, unknown> }
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly description?: string
    readonly schema?: {
      readonly type?: string
      readonly pattern?: string
      readonly default?: number
      readonly minimum?: number
      readonly maximum?: number
    }
  }[]
  readonly description?: string
  readonly tags: readonly string[]
}
interface Document {
  readonly openapi: string
  readonly servers: readonly { readonly url: string }[]
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: { readonly securitySchemes: Record<string, object> }
}

interface BodySchema {
  readonly additionalProperties?: boolean
  readonly required?: readonly string[]
  readonly properties: Readonly<Record<string, object>>
}

const gateway = await fixture(startTestGateway())
const document = (await (await gateway.ask('GET', '/openapi.json')).json()) as Document

/** Paths that refer to another one. */
const references = () =>
  Object.entries(document.paths).flatMap(([path, item]) => ('$ref' in item ? [[path, String(item.$ref)] as const] : []))
const operations = () =>
  Object.entries(document.paths)
    .filter(([, item]) => !('$ref' in item))
    .flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ path, method, operation })))

test('the description is valid OpenAPI 3.1', async () => {
  const result = await new Validator().validate(structuredClone(document) as never)
  expect(result.errors).toBeUndefined()
  expect(result.valid).toBe(true)
  expect(document.openapi).toMatch(/^3\.1\./)
  expect(document.servers).toEqual([{ url: gateway.url }])
})

test('every reference resolves, and no schema carries what OpenAPI does not know', () => {
  const text = JSON.stringify(document)
  for (const [, name] of text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)) {
    expect(document.components).toHaveProperty(`schemas.${name}`)
  }
  expect(text.match(/"(\$id|nullable|x-svc-\w+)":/)).toBeNull()
})

test('§35: what is served below /v1/api is served below /v1, described once and referred to', () => {
  const names = references().map(([path]) => path)
  for (const path of ['chat/completions', 'completions', 'embeddings', 'messages', 'responses', 'rerank']) {
    expect(names).toContain(`/v1/${path}`)
  }
  for (const [path, reference] of references()) {
    const canonical = path.replace('/v1/', '/v1/api/')
    expect(reference).toBe(`#/paths/${canonical.replaceAll('/', '~1')}`)
    expect(document.paths).toHaveProperty([canonical, 'post'])
  }
  const rows = new RouteTable(gateway.app).rows
  for (const [path] of references()) expect(rows.some((row) => row.path === path)).toBe(true)
})

test('an enum that may be null says so', () => {
  const reason = 'ChatChunk.properties.choices.items.properties.finish_reason.enum'
  expect(document.components).toHaveProperty(`schemas.${reason}`, [
    'stop',
    'length',
    'tool_calls',
    'content_filter',
    'error',
    null,
  ])
})

test('every mounted route is described, but for the pages of the documentation the console and /verify', () => {
  const all = new RouteTable(gateway.app).rows.filter(
    ({ path }) => !/^\/(docs|openapi|console|v1\/console|verify)/.test(path),
  )
  const rows = all.filter(({ hidden }) => !hidden)
  const hidden = all.filter((row) => row.hidden).map(({ path }) => path)
  const canonical = (path: string) => rows.some((row) => row.path === path.replace(/^\/v1\//, '/v1/api/'))
  expect(hidden.filter((path) => !canonical(path)).sort()).toEqual([
    '/',
    '/v1/api/models/*',
    '/v1/models/*',
    '/v2/rerank',
  ])
  const described = operations().map(({ path, method }) => `${method.toUpperCase()} ${path}`)
  const named = (path: string) => bracedPath(path).replace(/\/\*$/, '/{rest}')
  expect(rows.map(({ method, path }) => `${method} ${named(path)}`).sort()).toEqual(described.sort())
})

test('admin operations take the admin token, name their role, and those that change something take a reason', () => {
  const admin = operations().filter(({ path }) => path.startsWith('/v1/admin/'))
  expect(admin.length).toBeGreaterThan(15)
  for (const { method, operation } of admin) {
    expect(operation.security).toEqual([{ RoleToken: [] }])
    expect(operation.description).toMatch(/Least role: (viewer|operator|admin)\./)
    const names = (operation.parameters ?? []).map(({ name }) => name)
    expect(names.includes('x-svc-reason')).toBe(method !== 'get')
    expect(Object.keys(operation.responses.default?.content ?? {})).toEqual(['application/problem+json'])
  }
})

test('§13, §16: what can be had as a table names both types, and answers with both', async () => {
  const tables = operations().filter(({ operation }) =>
    (operation.parameters ?? []).some(({ name, in: place }) => name === 'format' && place === 'query'),
  )
  expect(tables.length).toBeGreaterThan(3)
  for (const { path, operation } of operations()) {
    const types = Object.keys(operation.responses['200']?.content ?? {})
    const isTable = tables.some((each) => each.operation === operation)
    expect([path, types.includes('text/csv')]).toEqual([path, isTable])
  }
  const { id: customerId, headers: reader } = await newAccount(gateway)
  // Without a payout there is no batch, and without an agent no pull: tests/spec/money/settled-money.test.ts and
  // tests/spec/nodes/pulled-models.test.ts have them.
  const elsewhere = tables.filter(({ path }) => /\{(?:batch|node)_id\}/.test(path))
  expect(elsewhere.map(({ path }) => path).sort()).toEqual([
    '/v1/admin/nodes/{node_id}/pulls',
    '/v1/admin/payout-batches/{batch_id}/proofs',
  ])
  for (const { path, operation } of tables.filter((each) => !elsewhere.includes(each))) {
    const content = operation.responses['200']?.content ?? {}
    expect([path, Object.keys(content)]).toEqual([path, ['application/json', 'text/csv']])
    const place = path.replace('{customer_id}', String(customerId))
    const table = await gateway.ask('GET', `${place}?format=csv`, { as: 'admin', headers: reader })
    expect([path, table.status, table.headers.get('content-type')?.split(';')[0]]).toEqual([path, 200, 'text/csv'])
    const [head = ''] = (await table.text()).split('\r\n')
    const { description = '' } = (content['text/csv']?.schema ?? {}) as { readonly description?: string }
    expect(head.replaceAll('"', '').split(',').join(', ')).toBe(description.replace('With `format=csv`: ', ''))
  }
})

test('§27: endpoint 8 needs its stamp, and each part of it says its form', () => {
  const parameters = document.paths['/v1/nodes/{node_id}/payouts']?.get?.parameters ?? []
  const stamp = parameters.filter(({ name }) => ['signed_at', 'nonce', 'signature_ed25519'].includes(name))
  expect(stamp.map(({ name, required, schema }) => [name, required, schema?.type])).toEqual([
    ['signed_at', true, 'string'],
    ['nonce', true, 'string'],
    ['signature_ed25519', true, 'string'],
  ])
  const formOf = (name: string) => new RegExp(stamp.find((each) => each.name === name)?.schema?.pattern ?? '^$', 'u')
  const forms = [
    ['signed_at', ['2026-11-20T16:00:00Z', '2026-11-20T16:00:00.123+01:00'], ['2026-11-20', '2026-13-20T16:00:00Z']],
    ['nonce', ['A'.repeat(16), '_-'.repeat(32)], ['A'.repeat(15), 'A'.repeat(65), `${'A'.repeat(16)}:`]],
    ['signature_ed25519', ['A'.repeat(86), `${'A'.repeat(86)}==`], ['A'.repeat(85), `${'A'.repeat(86)}=`]],
  ] as const
  for (const [name, good, bad] of forms) {
    for (const text of good) expect([name, text, formOf(name).test(text)]).toEqual([name, text, true])
    for (const text of bad) expect([name, text, formOf(name).test(text)]).toEqual([name, text, false])
  }
})

test('§27: the media type of every whole answer is the one that is sent', async () => {
  const open = operations().filter(
    ({ path, method, operation }) => method === 'get' && !path.includes('{') && operation.security?.length === 0,
  )
  expect(open.length).toBeGreaterThan(8)
  for (const { path, operation } of open) {
    const response = await gateway.ask('GET', path)
    const sent = response.headers.get('content-type')?.split(';')[0]
    const described = operation.responses[String(response.status)] ?? operation.responses.default
    expect([path, Object.keys(described?.content ?? {})]).toEqual([path, [String(sent)]])
  }
  const typesOf = (path: string) => Object.keys(document.paths[path]?.get?.responses['200']?.content ?? {})
  expect(typesOf('/.well-known/api-catalog')).toEqual(['application/linkset+json'])
  expect([typesOf('/metrics'), typesOf('/v1/admin/inspect')]).toEqual([['text/plain'], ['text/event-stream']])
})

test('§5: the messages that are described are the messages that are read, those of the specification first', async () => {
  const schema = (document.components as unknown as { schemas: { ChatRequest: object } }).schemas.ChatRequest
  expect(schema).toHaveProperty('properties.messages.items.anyOf.0.properties.role.enum', [...chatRoles])
  expect(schema).toHaveProperty('properties.messages.items.anyOf.0.required', ['role', 'content'])
  const contents = [{}, { content: null }, { content: 'x' }]
  const calls = [{}, { tool_calls: [] }, { tool_calls: [{ id: 'c' }] }, { tool_calls: null }]
  let taken = 0
  for (const role of [...chatRoles, 'developer', 'function']) {
    for (const message of contents.flatMap((content) => calls.map((call) => ({ role, ...content, ...call })))) {
      const body = { model: 'm', messages: [message] }
      const described = Value.Check(DescribedChatRequest, body)
      expect([message, described]).toEqual([message, read(body)])
      taken += described ? 1 : 0
    }
  }
  expect(taken).toBe(5 * 2 * calls.length + 1)
})

const read = (body: object): boolean => {
  try {
    return chat.read(JSON.stringify(body)).messages.length === 1
  } catch {
    return false
  }
}

test('§23: the body that is described is the body that is read', async () => {
  const told = operations().flatMap(({ path, method, operation }) => {
    const json = operation.requestBody?.content['application/json'] as { readonly schema?: BodySchema } | undefined
    const schema = json?.schema
    // A node's question is read after its signature.
    return schema?.additionalProperties === false && /^.v1.(admin|node-agent.enroll)/.test(path)
      ? [
          {
            path: path.replace('{receipt_hash}', `0x${'0'.repeat(64)}`).replaceAll(/\{\w+\}/g, '0'),
            method: method.toUpperCase(),
            schema,
          },
        ]
      : []
  })
  expect(told.length).toBeGreaterThan(20)
  for (const { path, method, schema } of told) {
    const faultsOf = async (body: object) => {
      const answer = await json(await gateway.ask(method, path, { as: 'admin', json: body }))
      if (answer.errors === undefined) throw new Error(`${method} ${path}: ${answer.code}`)
      return answer.errors as readonly { readonly pointer: string; readonly code: string }[]
    }
    const missing = await faultsOf({ nobody_reads_this: 1 })
    const known = new Set(missing.filter(({ code }) => code !== 'unknown_field').map(({ pointer }) => pointer.slice(1)))
    expect([method, path, [...known].sort()]).toEqual([method, path, [...(schema.required ?? [])].sort()])
    for (const name of Object.keys(schema.properties)) {
      const refused = await faultsOf({ nobody_reads_this: 1, [name]: [[]] })
      const unknown = refused.filter(({ code }) => code === 'unknown_field').map(({ pointer }) => pointer)
      expect([method, path, name, unknown]).toEqual([method, path, name, ['/nobody_reads_this']])
    }
  }
})

test('§9: each parameter is described, and each body and answer has an example', () => {
  const examples = (media: object) => 'example' in media || 'examples' in media
  const faults: string[] = []
  for (const { path, method, operation } of operations()) {
    const place = `${method} ${path}`
    for (const { name, description = '' } of operation.parameters ?? []) {
      if (description.trim() === '') faults.push(`${place}: ${name} is not described`)
    }
    for (const [type, media] of Object.entries(operation.requestBody?.content ?? {})) {
      if (!examples(media as object)) faults.push(`${place}: ${type} of the request has no example`)
    }
    for (const [status, { content = {} }] of Object.entries(operation.responses)) {
      const bare = Object.keys(content).length === 0
      // What has no body, and what becomes a WebSocket or is passed on between gateways.
      const silent = status === '204' || /tunnel$|^\/v1\/peer/.test(path)
      if (/^2/.test(status) && bare && !silent) faults.push(`${place}: ${status} says nothing`)
      if (!/^2/.test(status)) continue
      for (const [type, media] of Object.entries(content)) {
        if (!examples(media)) faults.push(`${place}: ${status} ${type} has no example`)
      }
    }
  }
  expect(faults).toEqual([])
})

test('§9: the examples are true: the gateway takes each request’s, and each answer’s has its schema', async () => {
  const faults: string[] = []
  const checked = { requests: 0, answers: 0 }
  const rows = gateway.app.routes as readonly { method: string; path: string; hooks: { response?: object } }[]
  for (const { path, method, operation } of operations()) {
    const content = operation.requestBody?.content['application/json'] as { readonly example?: object } | undefined
    if (content?.example !== undefined) {
      checked.requests++
      const place = path.replace('{receipt_hash}', `0x${'0'.repeat(64)}`).replaceAll(/\{\w+\}/g, 'none')
      const answer = await gateway.ask(method.toUpperCase(), place, { as: 'admin', json: content.example })
      const { errors } = (await answer.json().catch(() => ({}))) as { readonly errors?: readonly object[] }
      if (errors !== undefined) faults.push(`${method} ${path}: ${JSON.stringify(errors)}`)
    }
    const mounted = rows.find((row) => row.method.toLowerCase() === method && bracedPath(row.path) === path)
    for (const [status, { content: kinds = {} }] of Object.entries(operation.responses)) {
      const schema = (mounted?.hooks.response as Record<string, TSchema> | undefined)?.[status]
      const { example } = (kinds['application/json'] ?? {}) as { readonly example?: object }
      if (schema === undefined || example === undefined) continue
      checked.answers++
      for (const { path: at, message } of Value.Errors(schema, example)) {
        faults.push(`${method} ${path} ${status}: ${at} ${message}`)
      }
    }
  }
  expect(faults).toEqual([])
  expect(checked.requests).toBeGreaterThan(25)
  expect(checked.answers).toBeGreaterThan(60)
})

test('extensions are tagged as such', () => {
  const specified = [
    '/v1/api/chat/completions',
    '/v1/api/models',
    '/v1/api',
    '/v1/api/private-inference/jobs',
    '/v1/api/private-inference/jobs/{job_id}',
    '/v1/api/pricing',
    '/v1/public/settlement',
    '/marketplace/models',
    '/v1/nodes/{node_id}/payouts',
    '/v1/billing/account',
    '/v1/billing/usage',
    '/v1/admin/customers/{customer_id}/usage-export',
    '/v1/admin/customers/{customer_id}/credits',
    '/v1/admin/billing/treasury-report',
    '/v1/admin/access-events',
    '/v1/admin/approval-events',
    '/v1/admin/command-events',
    '/v1/admin/audit/summary',
    '/v1/admin/approval-policy',
    '/v1/admin/retention/audit-events/purge',
  ]
  for (const { path, operation } of operations()) {
    expect(operation.tags.some((tag) => /extension/i.test(tag))).toBe(!specified.includes(path))
  }
})

test('every operation that can stream says so, with an example', () => {
  const streaming = inferenceOperations.filter(({ writer }) => writer !== undefined).map(({ path }) => `/v1/api${path}`)
  expect(streaming.length).toBeGreaterThan(3)
  for (const path of streaming) {
    const content = document.paths[path]?.post?.responses['200']?.content ?? {}
    expect([path, Object.keys(content)]).toEqual([path, ['application/json', 'text/event-stream']])
    expect(JSON.stringify(content['text/event-stream'])).toContain('data: ')
  }
  expect(inferenceOperations.length).toBeGreaterThan(streaming.length)
})

test('chat: JSON and server-sent events with examples, a JSON body only, both ways to authenticate', () => {
  const chat = document.paths['/v1/api/chat/completions']?.post
  const content = chat?.responses['200']?.content ?? {}
  expect(Object.keys(content)).toEqual(['application/json', 'text/event-stream'])
  expect(Object.keys(content['text/event-stream']?.examples ?? {})).toEqual([
    'terminal_chunk',
    'include_usage',
    'mixture',
    'failure',
  ])
  expect(Object.keys(chat?.requestBody?.content ?? {})).toEqual(['application/json'])
  expect(chat?.security).toEqual([{ GatewayKey: [] }])
  expect(Object.keys(document.components.securitySchemes).sort()).toEqual([
    'CustomerId',
    'CustomerToken',
    'GatewayKey',
    'NodeId',
    'NodeNonce',
    'NodeSignature',
    'NodeTimestamp',
    'RoleToken',
    'RoleTokenAsBearer',
  ])
  expect(chat?.responses['429']?.content?.['application/json']?.schema).toEqual({
    $ref: '#/components/schemas/OpenAiError',
  })
})

test('§6: the examples are what the schemas say', () => {
  for (const { value } of Object.values(requestExamples)) {
    for (const schema of [ChatRequest, DescribedChatRequest]) expect([...Value.Errors(schema, value)]).toEqual([])
  }
  for (const { value } of Object.values(wholeExamples)) expect([...Value.Errors(ChatCompletion, value)]).toEqual([])
  for (const { value } of Object.values(streamExamples)) {
    const blocks = value.split('\n\n').filter((block) => block !== '' && !block.startsWith(':'))
    const chunks = blocks.filter((block) => block !== 'data: [DONE]').map((block) => JSON.parse(block.slice(6)))
    expect(chunks.length).toBeGreaterThan(2)
    for (const chunk of chunks) expect([...Value.Errors(ChatChunk, chunk)]).toEqual([])
  }
  expect(streamExamples.failure.value).not.toContain('[DONE]')
})

test('the mixture is spelled out: its strategies, and every code that refuses it', () => {
  const properties = 'ChatRequest.properties.svc.properties.mixture.properties'
  expect(document.components).toHaveProperty(`schemas.${properties}.strategy.enum`, ['synthesize', 'vote', 'weighted'])
  const responses = JSON.stringify(document.paths['/v1/api/chat/completions']?.post?.responses)
  const codes = Object.keys(problemKinds).filter((code) => code.startsWith('mixture_'))
  expect(codes.length).toBeGreaterThan(7)
  expect(codes.filter((code) => !responses.includes(code))).toEqual([])
})

test('§17: numbers in a query have the default and the bounds of the table, at each of its endpoints', () => {
  const text = readFileSync(join(import.meta.dir, '../../../docs/specification.md'), 'utf8')
  const endpoints = new Map(
    [...text.matchAll(/^\| ([0-9]+) \| `(GET|POST) (\/\S+)` \|/gm)].map(([, number, method = '', path = '']) => [
      number,
      document.paths[path]?.[method.toLowerCase()],
    ]),
  )
  const cells = (cell: string) => cell.split(' and ').map((one) => one.trim().replaceAll(',', ''))
  const rows = [...text.matchAll(/^\| (`(?:window_|limit).*?) \| ([0-9, ]+) \| (.+) \| (.+) \| (.+) \|$/gm)]
  const seen = rows.flatMap(([, names = '', numbers = '', standard = '', least = '', most = '']) =>
    [...names.matchAll(/`([a-z_]+)`/g)].flatMap(([, name], at) => {
      const of = (cell: string) => Number(cells(cell)[cell.includes(' and ') ? at : 0])
      return numbers.split(', ').map((number) => {
        const schema = endpoints.get(number)?.parameters?.find((parameter) => parameter.name === name)?.schema
        expect([number, name, schema?.default, schema?.minimum, schema?.maximum]).toEqual([
          ...[number, name, of(standard), of(least), of(most)],
        ])
        return `${number} ${name}`
      })
    }),
  )
  expect(seen.length).toBe(15)
})
