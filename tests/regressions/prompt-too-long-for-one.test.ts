import { afterAll, describe, expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { nodeChunk, nodeUsage } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

/** A node with a context that counts a token for every two letters, as no estimate can know. */
interface Counting {
  readonly url: string
  readonly context: number
  asked: number
  /** Answers nothing but 500. */
  broken: boolean
  stop(): Promise<void>
}

function startCounting(model: string, context: number, told: boolean): Counting {
  const node = { asked: 0, broken: false }
  const answer = async (request: Request): Promise<Response> => {
    const { messages, stream } = (await request.json()) as { messages: { content: string }[]; stream?: boolean }
    node.asked++
    if (node.broken) return Response.json({ error: { message: 'broken' } }, { status: 500 })
    const tokens = Math.ceil((messages[0]?.content.length ?? 0) / 2)
    if (tokens > context) {
      const message = `request (${tokens} tokens) exceeds the available context size (${context} tokens), try increasing it`
      const numbers = { type: 'exceed_context_size_error', n_prompt_tokens: tokens, n_ctx: context }
      return Response.json({ error: { code: 400, message, ...numbers } }, { status: 400 })
    }
    if (stream !== true) {
      return Response.json({ choices: [{ index: 0, message: { role: 'assistant', content: 'x' } }], usage: nodeUsage })
    }
    const events = [nodeChunk({ content: 'x' }), nodeChunk({}, 'stop', { usage: nodeUsage })]
    const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
    return new Response(`${text}data: [DONE]\n\n`, { headers: { 'content-type': 'text/event-stream' } })
  }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const { pathname } = new URL(request.url)
      if (pathname === '/v1/chat/completions') return answer(request)
      if (pathname !== '/v1/models') return new Response('{}', { status: 404 })
      return Response.json({ object: 'list', data: [{ id: model, ...(told ? { max_model_len: context } : {}) }] })
    },
  })
  return Object.assign(node, { url: `http://127.0.0.1:${server.port}`, context, stop: () => server.stop(true) })
}

const nodes: Counting[] = []
async function pool(model: string, contexts: readonly number[], told = true): Promise<Counting[]> {
  const made = contexts.map((context) => startCounting(model, context, told))
  nodes.push(...made)
  for (const { url } of made) await gateway.node(url, { customerId: customer.customerId })
  return made
}
afterAll(async () => {
  await Promise.all(nodes.map((node) => node.stop()))
})
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()

const ask = (model: string, letters: number, stream = false) =>
  gateway.chat(customer.key, { model, stream, messages: [{ role: 'user', content: 'x'.repeat(letters) }] })
const asked = (made: readonly Counting[]) => made.map((node) => node.asked)

/**
 * Symptom: 6,030 real tokens in a context of 8,192 were refused by an estimate; a node's own "too long" came as a bare
 * `invalid_request`, and nobody tried the machine with the larger context.
 * Cause: the estimate was taken for the truth, and a node's 400 said nothing.
 * Fix: the node's word counts; it is told with its numbers, after one try on a larger context.
 */
describe.each([
  ['a whole answer', false],
  ['a stream', true],
] as const)('§27: %s', (_name, stream) => {
  test('contexts below the estimate are tried last, and serve what fits', async () => {
    const made = await pool(`last-${stream}`, [1_000, 2_000])
    const [small, large] = made as [Counting, Counting]
    // 1,207 tokens by the estimate, 2,000 by the node.
    for (let at = 0; at < 4; at++) expect((await ask(`last-${stream}`, 4_000, stream)).status).toBe(200)
    expect(asked(made)).toEqual([0, 4])
    large.broken = true
    const refused = await ask(`last-${stream}`, 4_000, stream)
    // The smaller one cannot serve it; the larger one may when it is well again.
    expect([refused.status, refused.headers.get('x-should-retry'), small.asked]).toEqual([502, 'true', 1])
    expect((await ask(`last-${stream}`, 2_000, stream)).status).toBe(200)
  })

  test('one that is too long for a machine is tried once on a larger one', async () => {
    const made = await pool(`larger-${stream}`, [3_000, 3_000, 9_000])
    const response = await ask(`larger-${stream}`, 8_000, stream)
    expect(response.status).toBe(200)
    await response.text()
    const [first, second, large] = asked(made) as [number, number, number]
    expect(first + second).toBeLessThanOrEqual(1)
    expect(large).toBe(1)
  })

  test('where it is too long for that one, too, its numbers are told', async () => {
    const made = await pool(`both-${stream}`, [3_000, 4_000, 5_000, 6_000])
    const response = await ask(`both-${stream}`, 14_000, stream)
    expect(response.status).toBe(400)
    expect(response.headers.get('x-should-retry')).toBe('false')
    const { error } = (await response.json()) as { error: { message: string; svc: { context_length: number } } }
    const { context_length: context } = error.svc
    expect(error).toMatchObject({
      code: 'context_length_exceeded',
      param: 'messages',
      svc: { prompt_tokens: 7_000, retryable: false },
    })
    const takes = `both-${stream} takes ${context / 1_000},000`
    expect(error.message).toStartWith(`The prompt has 7,000 tokens by the node's count; ${takes}. The node says: `)
    expect(error.message).toContain(`(7000 tokens) exceeds the available context size (${context} tokens)`)
    const tries = made.filter((node) => node.asked > 0)
    expect(tries.length).toBeLessThanOrEqual(2)
    expect(Math.max(...tries.map((node) => node.context))).toBe(context)
    expect(asked(made).every((count) => count <= 1)).toBe(true)
  })

  test('machines that do not tell their context: the node is asked, and its word is the last', async () => {
    const made = await pool(`untold-${stream}`, [1_000, 1_000], false)
    const response = await ask(`untold-${stream}`, 4_000, stream)
    expect(await response.json()).toMatchObject({
      error: { code: 'context_length_exceeded', svc: { prompt_tokens: 2_000, context_length: 1_000 } },
    })
    expect(asked(made).sort()).toEqual([0, 1])
  })
})
