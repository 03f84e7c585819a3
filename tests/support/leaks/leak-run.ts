import { expect } from 'bun:test'
import { connect } from '../../../src/db/client.ts'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newToken } from '../../../src/secrets.ts'
import { secondMs } from '../../../src/time.ts'
import { waitFor } from '../gateways/gateway.ts'
import { startWatchedGateway, type WatchedGateway } from '../gateways/watched-gateway.ts'
import { type LeakyNode, leaks, startLeakyNode } from '../nodes/leaky-node.ts'
import { everyRow, type Row } from './every-row.ts'
import { contents, markedChat, markedHeaders, named } from './leak-markers.ts'
import { adminFaults, refusedBodies } from './leak-refusals.ts'

interface Answer {
  readonly status: number
  readonly text: string
  readonly requestId: string | null
}

/**
 * One run of everything that succeeds, fails and is refused, with a word of its own in every part of it, and all that
 * came back. The gateway is a first start with the embedded database.
 */
export class LeakRun {
  readonly errorBodies: string[] = []
  readonly headers: string[] = []
  /** Whole answers and streams of chat that began with 200. */
  readonly answers: string[] = []
  readonly viewerReads: string[] = []
  readonly operatorReads: string[] = []
  readonly publicReads: string[] = []
  readonly metrics: string[] = []
  database: readonly Row[] = []
  /** Tokens, keys and secrets, whether they hold or not. */
  readonly tokens: Record<string, string>
  /** Customer ids: no log, metric or error names them. */
  readonly customers: Record<string, string>

  private constructor(
    readonly gateway: WatchedGateway,
    readonly fake: FakeNode,
    readonly node: LeakyNode,
  ) {
    const { base_url: _, customer_id, gateway_key, ...given } = gateway.credentials
    this.tokens = { gateway_key, ...given, ...gateway.secrets }
    // A short word by itself: it is looked for as a value.
    this.customers = { local: `"${customer_id}"` }
  }

  static async make(): Promise<LeakRun> {
    const gateway = await startWatchedGateway({
      SVC_PORT: '0',
      SVC_LOG_LEVEL: 'debug',
      SVC_DISCOVER: 'false',
      SVC_WARM_UP: 'false',
      SVC_DEMO: 'never',
      SVC_POLL_INTERVAL_MS: '100',
      SVC_INTER_CHUNK_TIMEOUT_MS: '6000',
    })
    const fake = startFakeNode({
      models: ['m'],
      apiKey: named.apiKey,
      answer: { text: contents.output, chunks: 1, reasoning: contents.reasoning, toolCalls: 'never', leak: true },
    })
    const run = new LeakRun(gateway, fake, startLeakyNode(fake))
    try {
      await run.registerNodes()
      await run.succeed()
      await run.askForTokens()
      await run.failAtNode()
      await run.beRefused()
      await run.administrate()
      await run.breakDatabase()
      await run.read()
      return run
    } catch (error) {
      await run.stop()
      throw error
    }
  }

  async stop(): Promise<void> {
    this.node.stop()
    this.fake.stop()
    await this.gateway.stop()
    this.gateway.remove()
  }

  private async ask(path: string, init: RequestInit = {}): Promise<Answer> {
    const headers = { ...markedHeaders, 'x-request-id': named.requestId, ...(init.headers as object) }
    const response = await fetch(this.gateway.url + path, { ...init, headers, redirect: 'manual' })
    const text = await response.text()
    const { status } = response
    this.headers.push(JSON.stringify([...response.headers]))
    if (status >= 400) this.errorBodies.push(text)
    // What a stream says after it has begun: its last event.
    const failure = text.indexOf('"error":{')
    if (status === 200 && failure !== -1) this.errorBodies.push(text.slice(text.lastIndexOf('data: ', failure)))
    return { status, text, requestId: response.headers.get('x-request-id') }
  }

  private chatInit(more: object, headers: object): RequestInit {
    return {
      method: 'POST',
      headers: { authorization: `Bearer ${this.tokens.gateway_key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(markedChat(more)),
    }
  }

  private async chat(more: object = {}, headers: object = {}, query = ''): Promise<Answer> {
    const answer = await this.ask(`/v1/api/chat/completions${query}`, this.chatInit(more, headers))
    if (answer.status === 200) this.answers.push(answer.text)
    return answer
  }

  private admin(method: string, path: string, body?: object, token = this.tokens.admin_token ?? ''): Promise<Answer> {
    return this.ask(path, {
      method,
      headers: { 'x-svc-admin-token': token, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  /** What an admin call shows once. */
  private async made(path: string, body?: object): Promise<Readonly<Record<string, string>>> {
    const { status, text } = await this.admin('POST', path, body)
    expect([status, text.slice(0, 0)]).toEqual([201, ''])
    return JSON.parse(text) as Record<string, string>
  }

  private nodeBody(more: object): object {
    const kind = { visibility: 'public', privacy_class: 'public', node_class: 'gpu', api_key: named.apiKey }
    return { customer_id: this.gateway.credentials.customer_id, ...kind, ...more }
  }

  private async registerNodes(): Promise<void> {
    const { node_id } = await this.made('/v1/admin/nodes', this.nodeBody({ url: this.node.url }))
    await this.made('/v1/admin/nodes', this.nodeBody({ url: `http://127.0.0.1:9/${named.nodePath}` }))
    await waitFor('the node', async () =>
      (await this.admin('GET', `/v1/admin/nodes/${node_id}`)).text.includes('"state":"ready"'),
    )
  }

  private async succeed(): Promise<void> {
    for (const stream of [false, true]) {
      for (const include_usage of [false, true]) {
        const { status, text } = await this.chat({ stream, ...(stream ? { stream_options: { include_usage } } : {}) })
        expect([status, text.includes(contents.output)]).toEqual([200, true])
      }
    }
    const query = `?note=${contents.query}&${contents.query}=1`
    const strange = { 'x-request-id': `${contents.strangeRequestId} with spaces` }
    expect((await this.chat({}, strange, query)).status).toBe(200)
    await this.leave()
  }

  /** A client that is gone before the answer. */
  private async leave(): Promise<void> {
    this.fake.setAnswer({ firstTokenMs: 5_000 })
    for (const stream of [false, true]) {
      const leaving = new AbortController()
      const arrived = this.fake.nextRequest()
      const init = { ...this.chatInit({ stream }, markedHeaders), signal: leaving.signal }
      const left = fetch(`${this.gateway.url}/v1/api/chat/completions`, init).catch(() => null)
      await arrived
      const gone = this.fake.nextAbort()
      leaving.abort()
      await Promise.all([left, gone])
    }
    this.fake.setAnswer({ firstTokenMs: 0 })
  }

  private async failAtNode(): Promise<void> {
    for (const kind of leaks) {
      this.node.leak(kind)
      for (const stream of [false, true]) {
        const { status, text } = await this.chat({ stream })
        expect([kind, status >= 400 || text.includes('"error":{')]).toEqual([kind, true])
      }
    }
    this.node.leak(null)
    for (const kind of ['dropMidStream', 'stall', 'errorEvent', 'endWithoutFinish'] as const) {
      this.fake.setFaults({ kind, afterChunks: 2, scope: 'chat' })
      const { status, text } = await this.chat({ stream: true })
      expect([kind, status >= 400 || text.includes('"finish_reason":"error"')]).toEqual([kind, true])
    }
    this.fake.clearFaults()
  }

  /** The node has no tokenizer: a count is estimated, and tokens are refused. */
  private async askForTokens(): Promise<void> {
    const { prompt } = contents
    const messages = [{ role: 'user', content: prompt }]
    const asChat = this.chatInit({ messages, tools: undefined }, {})
    const asResponse = this.chatInit({ messages: undefined, input: prompt, tools: undefined }, {})
    for (const counted of [
      this.ask('/v1/messages/count_tokens', asChat),
      this.ask('/v1/responses/input_tokens', asResponse),
    ])
      expect((await counted).text).toContain('"usage_estimated":true')
    await this.refused(this.ask('/v1/tokenize', asChat), 400)
  }

  private async refused(answer: Promise<Answer>, status?: number): Promise<void> {
    const refusal = await answer
    expect(refusal.status).toBeGreaterThanOrEqual(400)
    if (status !== undefined) expect(refusal.status).toBe(status)
  }

  private async beRefused(): Promise<void> {
    const { prompt, wrongToken, wrongCustomer, query, path } = contents
    for (const body of refusedBodies) await this.refused(this.chat(body))
    this.tokens.unknownKey = newToken('gateway')
    const customer = { 'x-svc-customer-id': wrongCustomer, 'x-svc-customer-token': wrongToken }
    const headers = [
      { authorization: `Bearer ${wrongToken}` },
      { authorization: wrongToken },
      { authorization: `Bearer ${this.tokens.unknownKey}` },
      customer,
      { authorization: `Bearer ${this.tokens.operator_token}`, ...customer },
      { 'content-type': `text/${path}` },
    ]
    for (const header of headers) await this.refused(this.chat({}, header))
    const init = this.chatInit({}, {})
    for (const body of [`{"model":"${prompt}`, `"${prompt}"`, `{"model":"${prompt}"}`]) {
      await this.refused(this.ask('/v1/api/chat/completions', { ...init, body }), 400)
    }
    for (const pin of [query, `%20${query}`, `a&node_id=${query}`])
      await this.refused(this.chat({}, {}, `?node_id=${pin}`))
    for (const unknown of [`/${path}`, `/v1/api/${path}`, `/v1/admin/nodes/${path}`, '/v1/api/chat']) {
      for (const method of ['GET', 'POST', 'DELETE']) await this.refused(this.ask(unknown, { method }))
    }
    for (const authorization of [`Bearer ${wrongToken}`, `Bearer ${this.tokens.unknownKey}`]) {
      await this.refused(this.ask('/v1/api/models', { headers: { authorization } }), 401)
    }
  }

  private async administrate(): Promise<void> {
    const { tokens, customers } = this
    const second = await this.made('/v1/admin/customers', { display_name: 'second', reason: named.reason })
    customers.second = second.customer_id ?? ''
    const path = `/v1/admin/customers/${customers.second}`
    const issued = await this.made(`${path}/keys`, { name: 'k' })
    const rotated = await this.made(`/v1/admin/keys/${issued.key_id}/rotate`)
    const token = await this.made(`${path}/token`)
    Object.assign(tokens, {
      secondToken: second.customer_token,
      webhookSecret: second.webhook_secret,
      issuedKey: issued.gateway_key,
      rotatedKey: rotated.gateway_key,
      newToken: token.customer_token,
    })
    const { query } = contents
    for (const [method, route, body] of adminFaults(path, (more) => this.nodeBody({ url: this.node.url, ...more }))) {
      await this.refused(this.admin(method, route, body))
      await this.refused(this.admin(method, route, body, tokens.viewer_token), 403)
    }
    for (const limit of [query, `1&limit=${query}`])
      await this.refused(this.admin('GET', `/v1/admin/nodes?limit=${limit}`))
    for (const wrong of [contents.wrongToken, tokens.unknownKey, tokens.secondToken]) {
      await this.refused(this.admin('GET', '/v1/admin/nodes', undefined, wrong), 401)
    }
  }

  /** A driver's messages hold what the statement was given. */
  private async breakDatabase(): Promise<void> {
    const sql = connect(this.gateway.databaseUrl, { max: 1 })
    const tables = ['customers', 'gateway_keys', 'nodes', 'receipts']
    for (const table of tables) await sql.unsafe(`alter table ${table} rename to away_${table}`)
    this.tokens.lateKey = newToken('gateway')
    await this.refused(this.chat({}, { authorization: `Bearer ${this.tokens.lateKey}` }), 503)
    await this.refused(this.admin('POST', '/v1/admin/customers', { display_name: contents.adminValue }), 500)
    const body = this.nodeBody({ url: this.node.url, name: contents.adminValue })
    await this.refused(this.admin('POST', '/v1/admin/nodes', body), 500)
    await this.chat()
    await waitFor('the receipts to fail', () => this.gateway.logged().includes('receipts'), 5 * secondMs)
    for (const table of tables) await sql.unsafe(`alter table away_${table} rename to ${table}`)
    await sql.end()
  }

  private async read(): Promise<void> {
    const { viewer_token, operator_token, gateway_key } = this.tokens
    const { nodes } = JSON.parse((await this.admin('GET', '/v1/admin/nodes')).text) as { nodes: { node_id: string }[] }
    const last = await this.chat()
    const shared = [
      '/v1/admin/nodes',
      '/v1/admin/models',
      `/v1/admin/explain?request_id=${last.requestId}`,
      ...nodes.map(({ node_id }) => `/v1/admin/nodes/${node_id}`),
    ]
    const second = `/v1/admin/customers/${this.customers.second}`
    for (const path of shared) this.viewerReads.push((await this.admin('GET', path, undefined, viewer_token)).text)
    for (const path of [...shared, '/v1/admin/customers', second, `${second}/keys`]) {
      this.operatorReads.push((await this.admin('GET', path, undefined, operator_token)).text)
    }
    for (const path of ['/v1/api', '/v1/api/models', '/healthz', '/readyz', '/openapi.json', '/docs']) {
      this.publicReads.push((await this.ask(path)).text)
    }
    const bearer = (token: string | undefined) => ({ headers: { authorization: `Bearer ${token}` } })
    this.publicReads.push((await this.ask('/v1/api/models', bearer(gateway_key))).text)
    this.metrics.push((await this.ask('/metrics', bearer(viewer_token))).text)
    await waitFor('the receipts', async () => {
      this.database = await everyRow(this.gateway.databaseUrl)
      return this.database.some(({ table }) => table === 'receipt_groups')
    })
  }
}
