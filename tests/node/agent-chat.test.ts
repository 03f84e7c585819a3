import { afterEach, describe, expect, test } from 'bun:test'
import { headers } from '../../src/brand.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { newId } from '../../src/ids.ts'
import { readNodeReceipt, type SeenWork } from '../../src/protocol/receipts/node-receipt.ts'
import { readStream } from '../support/clients/event-stream.ts'
import { postJson } from '../support/clients/post-json.ts'
import { type CallInit, startLoneAgent } from '../support/nodes/lone-agent.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { lasts } from '../support/run/lasts.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const path = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'hello there' }]

const server = await fixture(startFakeNode({ models: ['m-1'], speaks: 'llama.cpp', slots: 3 }))
const scripted = await fixture(startScriptedNode('slow'))
const agent = await fixture(startLoneAgent({ runtimes: [server.url, scripted.url] }))

afterEach(() => server.clearFaults())

const runtimeOf = (model: string) => {
  const runtime = agent.node.runtimes.list().find(({ models }) => models.some(({ id }) => id === model))
  if (runtime === undefined) throw new Error(`no runtime with ${model}`)
  return runtime
}

/** As the gateway sends a chat, and what it would then expect of the receipt. */
function order(model = 'm-1') {
  const runtime = runtimeOf(model)
  const requestId = newId('req')
  const init: CallInit = {
    headers: {
      [headers.nodeRequestId]: requestId,
      [headers.jobId]: 'job-7',
      [headers.runtimeId]: runtime.runtimeId,
      [headers.modelId]: 'public/m',
      [headers.nodeClass]: 'big',
    },
  }
  const seen = (usage: { readonly prompt_tokens: number; readonly completion_tokens: number }): SeenWork => ({
    requestId,
    jobId: 'job-7',
    kind: 'hosted_chat',
    nodeId: agent.node.nodeId ?? '',
    nodeClass: 'big',
    runtimeId: runtime.runtimeId,
    runtimeKind: runtime.kind,
    modelId: 'public/m',
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
  })
  return { requestId, init, seen }
}

/** What the gateway would have seen, so many ms later. */
const at = (laterMs = 0) => {
  const ms = Date.now() + laterMs
  return { fromMs: ms, endFromMs: ms, toMs: ms }
}

const refusal = async (response: Response) => {
  const { error } = (await response.json()) as { readonly error: { readonly code: string; readonly param: string } }
  return [response.status, error.code]
}

interface Whole {
  readonly model: string
  readonly choices: readonly { readonly message: { readonly content: string } }[]
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number }
  readonly svc: { readonly receipt_hash: string; readonly signature_ed25519: string }
}

describe('§14: receipts', () => {
  test('a whole answer carries the signed receipt of just this work', async () => {
    const { init, seen } = order()
    const response = await agent.call('POST', path, { model: 'm-1', messages }, init)
    expect(response.status).toBe(200)
    const answer = (await response.json()) as Whole
    expect(answer.model).toBe('public/m')
    expect(answer.choices[0]?.message.content).toStartWith('fake-0')
    const found = readNodeReceipt(answer.svc, seen(answer.usage), agent.identity, at())
    expect(found?.hash).toBe(answer.svc.receipt_hash)
    // Any other fact, key or time, and it is no receipt.
    const others: SeenWork[] = [
      { ...seen(answer.usage), requestId: 'req_other' },
      { ...seen(answer.usage), jobId: null },
      { ...seen(answer.usage), nodeId: 'node_other' },
      { ...seen(answer.usage), runtimeId: 'rt_other' },
      { ...seen(answer.usage), modelId: 'm-1' },
      { ...seen(answer.usage), completionTokens: answer.usage.completion_tokens + 1 },
    ]
    for (const other of others) expect(readNodeReceipt(answer.svc, other, agent.identity, at())).toBeNull()
    expect(readNodeReceipt(answer.svc, seen(answer.usage), agent.identity, at(301_000))).toBeNull()
    const [first, ...rest] = answer.svc.signature_ed25519
    const forged = { ...answer.svc, signature_ed25519: `${first === 'A' ? 'B' : 'A'}${rest.join('')}` }
    expect(readNodeReceipt(forged, seen(answer.usage), agent.identity, at())).toBeNull()
    for (const nothing of [undefined, null, 1, {}, { receipt_hash: answer.svc.receipt_hash }]) {
      expect(readNodeReceipt(nothing, seen(answer.usage), agent.identity, at())).toBeNull()
    }
  })

  test.each([
    [undefined, 'svc-receipt-v1'],
    ['svc-receipt-v1', 'svc-receipt-v1'],
    ['svc-receipt-v2', 'svc-receipt-v1'],
    ['svc-receipt-v3', 'svc-receipt-v3'],
    ['svc-receipt-v4', 'svc-receipt-v3'],
    ['another', 'svc-receipt-v1'],
  ])('§36: for a gateway that reads up to %p it is of %p', async (reads, version) => {
    const { init, seen } = order()
    const sent = { ...init.headers, ...(reads === undefined ? {} : { [headers.receiptVersion]: reads }) }
    const response = await agent.call('POST', path, { model: 'm-1', messages }, { ...init, headers: sent })
    const { svc, usage } = (await response.json()) as Whole & { svc: { receipt: Record<string, string> } }
    expect(svc.receipt.v).toBe(version)
    expect('issued_at' in svc.receipt).toBe(version === 'svc-receipt-v3')
    expect(readNodeReceipt(svc, seen(usage), agent.identity, at())?.hash).toBe(svc.receipt_hash)
    // What it says of its time is its own and near, or it is no receipt.
    const moved = new Date(Date.parse(String(svc.receipt.started_at)) + 60_000).toISOString()
    for (const issued_at of ['2026-01-01T00:00:00.000Z', moved, 'now', 7]) {
      const forged = { ...svc, receipt: { ...svc.receipt, issued_at } }
      expect(readNodeReceipt(forged, seen(usage), agent.identity, at())).toBeNull()
    }
  })

  test.each([[true], [false]])('a stream carries it on its terminal chunk; include_usage %p', async (separate) => {
    const { init, seen } = order()
    const options = separate ? { stream_options: { include_usage: true } } : {}
    const stream = await readStream(
      await agent.call('POST', path, { model: 'm-1', messages, stream: true, ...options }, init),
    )
    expect(stream.done).toBe(true)
    expect(stream.content).toStartWith('fake-0')
    const { usage, svc, choices } = stream.last
    if (usage === undefined) throw new Error('no usage')
    expect(choices.length).toBe(separate ? 0 : 1)
    expect(readNodeReceipt(svc, seen(usage), agent.identity, at())).not.toBeNull()
    // Nothing before it vouches for anything.
    expect(stream.chunks.slice(0, -1).filter((chunk) => chunk.svc !== undefined)).toEqual([])
  })

  test('usage that the runtime does not report is estimated, and said to be', async () => {
    server.setFaults({ kind: 'noUsage', scope: 'chat' })
    const { init, seen } = order()
    const stream = await readStream(await agent.call('POST', path, { model: 'm-1', messages, stream: true }, init))
    expect(stream.last.svc?.usage_estimated).toBe(true)
    expect(stream.last.usage?.completion_tokens).toBeGreaterThan(0)
    expect(
      readNodeReceipt(
        stream.last.svc,
        seen(stream.last.usage ?? { prompt_tokens: 0, completion_tokens: 0 }),
        agent.identity,
        at(),
      ),
    ).not.toBeNull()
  })

  test('a caller on the machine gets its answer without one', async () => {
    const { local_token: token } = (await Bun.file(`${agent.dataDir}/local-token.json`).json()) as {
      local_token: string
    }
    const response = await postJson(agent.node.url + path, token, { model: 'm-1', messages })
    const { svc } = (await response.json()) as { readonly svc: Readonly<Record<string, unknown>> }
    expect(svc.runtime_id).toBe(runtimeOf('m-1').runtimeId)
    expect(svc.receipt_hash).toBeUndefined()
  })
})

describe('§22: the chat route', () => {
  test('what only routers and accounts need does not reach the runtime; unknown fields do', async () => {
    const before = server.requests.length
    await agent.call('POST', path, { model: 'm-1', messages, user: 'u', seed: 7, svc: { job_id: 'j' } }, order().init)
    const { body } = server.requests[before] ?? { body: {} }
    // Of llama.cpp a whole answer is asked for as a stream.
    const asStream = { stream: true, stream_options: { include_usage: true } }
    expect(body).toEqual({ model: 'm-1', messages, seed: 7, ...asStream })
  })

  test('a mixture is refused', async () => {
    const body = { model: 'm-1', messages, svc: { mixture: { strategy: 'vote', experts: [{ model: 'm-1' }] } } }
    expect(await refusal(await agent.call('POST', path, body))).toEqual([400, 'mixture_unsupported_path'])
  })

  test.each([
    ['no such model', { model: 'm-9', messages }, {}, [404, 'model_not_found']],
    ['no such runtime', { model: 'm-1', messages }, { [headers.runtimeId]: 'rt_0' }, [404, 'runtime_not_found']],
    ['a model that ranks', { model: 'lexical/bm25', messages }, {}, [400, 'modality_not_supported']],
    ['no messages', { model: 'm-1', messages: [] }, {}, [400, 'invalid_request']],
    ['two choices', { model: 'm-1', messages, n: 2 }, {}, [400, 'n_not_supported']],
    [
      'a request id with a colon',
      { model: 'm-1', messages },
      { [headers.nodeRequestId]: 'a:b' },
      [400, 'invalid_request'],
    ],
  ] as const)('%s', async (_, body, more, expected) => {
    expect(await refusal(await agent.call('POST', path, body, { headers: more }))).toEqual([...expected])
  })

  test.each([
    ['a 500', { kind: 'status500', scope: 'chat' }, [502, 'upstream_error']],
    ['a 429', { kind: 'status429', scope: 'chat' }, [429, 'capacity_exhausted']],
    ['a 400', { kind: 'status400', scope: 'chat' }, [400, 'invalid_request']],
  ] as const)('%s of the runtime', async (_, fault, expected) => {
    server.setFaults(fault)
    expect(await refusal(await agent.call('POST', path, { model: 'm-1', messages }))).toEqual([...expected])
  })

  const picture = { error: { code: 500, message: 'image input is not supported', type: 'server_error' } }
  const long = {
    error: {
      code: 400,
      message: 'request (9 tokens) exceeds the available context size (8 tokens) of /srv/weights for slow',
      type: 'exceed_context_size_error',
      n_prompt_tokens: 9,
      n_ctx: 8,
    },
  }
  test.each([
    ['a picture', 500, picture, { code: 'unsupported_input', message: 'image input is not supported' }],
    [
      'a prompt that is too long',
      400,
      long,
      {
        code: 'context_length_exceeded',
        message: 'request (9 tokens) exceeds the available context size (8 tokens) of […] for public/m',
        svc: { prompt_tokens: 9, context_length: 8 },
      },
    ],
  ] as const)(
    '§27: %s keeps its meaning, before the answer and as its first event',
    async (_, status, error, expected) => {
      scripted.answer((call) => call.respond(status, error))
      const refused = await agent.call('POST', path, { model: 'slow', messages }, order('slow').init)
      expect(refused.status).toBe(400)
      expect(await refused.json()).toMatchObject({ error: expected })
      scripted.answer(async (call) => {
        call.open()
        await call.event(error)
        call.end()
      })
      const body = { model: 'slow', messages, stream: true }
      const stream = await readStream(await agent.call('POST', path, body, order('slow').init))
      expect(stream.last.error).toMatchObject(expected)
      scripted.answer(null)
    },
  )

  const call = (index: number) => ({ index, id: `c${index}`, function: { name: 'f', arguments: '{}' } })
  const chunk = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`
  const tooMuch = {
    '257 tool calls': Array.from({ length: 257 }, (_, at) => chunk({ tool_calls: [call(at)] })).join(''),
    '4,098 changes': (chunk({ content: 'a' }) + chunk({ reasoning_content: 'b' })).repeat(2_049),
    '1,025 lines that are no JSON': chunk({ content: 'a' }) + 'data: [\n\n'.repeat(1_025),
    'more than eight times as much written': `data: {"choices":[${Array(100).fill('{}').join(',')}]}\n\n`.repeat(
      10_000,
    ),
  }
  test.each(Object.entries(tooMuch))('§27: %s of a runtime are its failure', async (_, body) => {
    scripted.answer((one) => {
      one.open()
      void one.raw(`${body}data: [DONE]\n\n`).then(() => one.end())
    })
    const asked = { model: 'slow', messages, stream: true }
    const response = await agent.call('POST', path, asked, order('slow').init)
    const text = await response.text()
    expect(text).toContain('"code":"upstream_error"')
    expect(text).not.toContain('[DONE]')
    expect(text.length).toBeLessThanOrEqual(8 * body.length + 4 * 1024 * 1024)
    scripted.answer(null)
  })

  test('a runtime that breaks off in mid-stream: an error event, and no [DONE]', async () => {
    server.setFaults({ kind: 'dropMidStream', afterChunks: 2, scope: 'chat' })
    const stream = await readStream(
      await agent.call('POST', path, { model: 'm-1', messages, stream: true }, order().init),
    )
    expect(stream.done).toBe(false)
    expect(stream.last.error?.code).toBe('upstream_error')
    expect(stream.chunks.some((chunk) => chunk.svc !== undefined)).toBe(false)
  })

  test('unknown paths and wrong methods', async () => {
    expect((await agent.call('GET', '/v1/nothing')).status).toBe(404)
    const wrong = await agent.call('GET', path)
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'POST'])
    expect(await (await fetch(`${agent.node.url}/healthz`)).json()).toEqual({ status: 'ok' })
  })
})

describe('a caller that leaves ends the work of the runtime', () => {
  test('before the first byte', async () => {
    const abort = new AbortController()
    const asked = agent.call('POST', path, { model: 'slow', messages }, { ...order('slow').init, signal: abort.signal })
    const call = await scripted.next()
    abort.abort()
    expect(await asked.catch((error: unknown) => (error as Error).name)).toBe('AbortError')
    await call.gone
    await waitUntil('its slot is free', () => runtimeOf('slow').inFlight === 0)
  })

  test('in mid-stream, by the tunnel’s way as well', async () => {
    const abort = new AbortController()
    const body = JSON.stringify({ model: 'slow', messages, stream: true })
    const response = agent.node.handle(
      new Request(`http://localhost${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', [headers.routerSignature]: agent.signature('POST', path, body) },
        body,
        signal: abort.signal,
      }),
    )
    const call = await scripted.next()
    call.open()
    await call.event({ choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: null }] })
    // Texts, as the tunnel takes them; a server would encode them.
    const reader = (await response).body?.getReader() as ReadableStreamDefaultReader<unknown> | undefined
    expect(String((await reader?.read())?.value)).toContain('"content":"Hi"')
    expect(runtimeOf('slow').inFlight).toBe(1)
    abort.abort()
    await call.gone
    await waitUntil('its slot is free', () => runtimeOf('slow').inFlight === 0)
  })

  test('a caller that stops reading holds the runtime back', async () => {
    const wholeChunks = 30_000
    // More than the sockets of two hops can hold: a receive buffer may grow to 32 MiB on Linux.
    server.setAnswer({ chunks: wholeChunks, marker: 'x'.repeat(4_000) })
    const response = await agent.call('POST', path, { model: 'm-1', messages, stream: true })
    const reader = response.body?.getReader()
    await reader?.read()
    const open = server.requests.at(-1)
    let sent = -1
    await waitUntil('the runtime sends no more', async () => {
      const before = sent
      sent = open?.chunksSent ?? 0
      await lasts(50)
      return before === sent
    })
    expect(sent).toBeLessThan(wholeChunks)
    expect(open?.outcome).toBe('open')
    const aborted = server.nextAbort()
    await reader?.cancel()
    await aborted
    server.setAnswer({ chunks: 5, marker: 'fake-' })
  })
})
