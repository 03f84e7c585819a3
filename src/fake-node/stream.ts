import { gzipSync } from 'node:zlib'
import type { Reply } from './answer.ts'
import { type ChatCall, errorBody, jsonHeaders, leaked } from './bodies.ts'

/** Every line a stream may send, in order. A `content` line counts as a chunk for `afterChunks`. */
type Step = { readonly line: string; readonly content: boolean }

/** Streams the reply as server-sent events, with the faults that strike after the headers. */
export async function streamReply(call: ChatCall, reply: Reply): Promise<void> {
  const { exchange, faults, answer } = call
  if (faults.get('jsonErrorBody')) {
    exchange.respond(200, jsonHeaders, errorBody(500, 'fake error body under HTTP 200'))
    return
  }
  const headers = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' }
  if (faults.get('gzip')) {
    sendZipped(call, reply, headers)
    return
  }
  exchange.head(200, headers)
  if (!(await call.pause(call.prefillMs + answer.firstTokenMs + (faults.get('slowFirstToken')?.ms ?? 0)))) return
  const later = faults.get('failAfter')
  if (later) {
    if (!(await call.pause(later.ms))) return
    await exchange.write(`data: ${errorBody(500, 'fake failure after a while')}\n\n`)
    exchange.end()
    return
  }
  if (await sendContent(call, reply)) await sendEnd(call, reply)
}

/** False when a fault or the client ended the stream. */
async function sendContent(call: ChatCall, reply: Reply): Promise<boolean> {
  const { exchange, answer } = call
  const steps = contentSteps(call, reply)
  const total = steps.filter((step) => step.content).length
  let sent = 0
  if (await strikes(call, 0, total)) return false
  for (const step of steps) {
    if (step.content && sent > 0 && answer.intervalMs > 0 && !(await call.pause(answer.intervalMs))) return false
    await exchange.write(step.line)
    if (exchange.closed) return false
    if (!step.content) continue
    sent += 1
    call.sent()
    if (await strikes(call, sent, total)) return false
  }
  return true
}

/** Faults that end a stream after this number of chunks; a number beyond the end strikes after the last one. */
async function strikes({ exchange, faults }: ChatCall, sent: number, total: number): Promise<boolean> {
  const due = (entry: { afterChunks?: number } | undefined) =>
    entry !== undefined && sent === Math.min(entry.afterChunks ?? 1, total)
  const cut = faults.get('dropMidStream')
  if (cut && due(cut)) {
    exchange.cut(cut.how ?? 'reset')
    return true
  }
  if (due(faults.get('stall'))) return true
  if (due(faults.get('malformedLine'))) await exchange.write('data: {"id":"chatcmpl-fake","choices":[{"delta":\n\n')
  const failing = faults.get('errorEvent')
  if (failing && due(failing)) {
    await exchange.write(errorLine(failing.shape ?? 'error'))
    exchange.end()
    return true
  }
  if (due(faults.get('endWithoutFinish'))) {
    exchange.end()
    return true
  }
  return false
}

function errorLine(shape: 'error' | 'object' | 'line' | 'named'): string {
  const body = errorBody(500, 'fake error event')
  if (shape === 'line') return `error: ${body}\n\n`
  if (shape === 'named') return `event: error\ndata: ${body}\n\n`
  if (shape === 'error') return `data: ${body}\n\n`
  return `data: ${JSON.stringify({ object: 'error', message: 'fake error event', type: 'server_error', code: 500 })}\n\n`
}

async function sendEnd(call: ChatCall, reply: Reply): Promise<void> {
  const { exchange, faults } = call
  await exchange.write(finishLine(call, reply))
  const late = faults.get('usageLate')
  if (late && !(await call.pause(late.ms))) return
  for (const line of usageLines(call, reply)) await exchange.write(line)
  if (call.answer.doneLine) await exchange.write('data: [DONE]\n\n')
  exchange.end()
}

function sendZipped(call: ChatCall, reply: Reply, headers: Readonly<Record<string, string>>): void {
  const lines = [
    ...contentSteps(call, reply).map((step) => step.line),
    finishLine(call, reply),
    ...usageLines(call, reply),
  ]
  const body = gzipSync(`${lines.join('')}data: [DONE]\n\n`)
  call.exchange.respond(200, { ...headers, 'content-encoding': 'gzip' }, body)
}

function contentSteps(call: ChatCall, reply: Reply): readonly Step[] {
  const { answer, faults } = call
  const step = (delta: object, content = true): Step => ({
    line: chunkLine(call, [choice(call, delta, null)]),
    content,
  })
  const huge = faults.get('hugeChunk')
  const pieces = answer.textInFinish ? reply.pieces.slice(0, -1) : reply.pieces
  const tool = reply.toolCall
  return [
    ...(answer.roleChunk ? [step({ role: 'assistant', content: '' }, false)] : []),
    ...(reply.reasoning === null ? [] : [step({ reasoning_content: reply.reasoning })]),
    ...(huge ? [step({ content: 'x'.repeat(huge.bytes) })] : []),
    ...pieces.map((content) => step({ content })),
    ...(tool === null
      ? []
      : tool.argumentPieces.map((part, at) =>
          step({
            tool_calls: [
              at === 0
                ? { index: 0, id: tool.id, type: 'function', function: { name: tool.name, arguments: part } }
                : { index: 0, function: { arguments: part } },
            ],
          }),
        )),
  ]
}

function choice(call: ChatCall, delta: object, finishReason: string | null): object {
  return { index: 0, delta, finish_reason: finishReason, logprobs: null, ...(call.answer.leak ? leaked.choice : {}) }
}

function finishLine(call: ChatCall, reply: Reply): string {
  const last = call.answer.textInFinish ? reply.pieces.at(-1) : undefined
  const delta = last === undefined ? {} : { content: last }
  const withUsage = call.answer.usageIn === 'finishChunk' && wantsUsage(call)
  return chunkLine(call, [choice(call, delta, reply.finishReason)], withUsage ? { usage: reply.usage } : {})
}

function wantsUsage({ request, answer, faults }: ChatCall): boolean {
  return (request.includeUsage || answer.usageUnasked) && faults.get('noUsage') === undefined
}

function usageLines(call: ChatCall, reply: Reply): readonly string[] {
  if (!wantsUsage(call) || call.answer.usageIn === 'finishChunk') return []
  const line = chunkLine(call, [], { usage: reply.usage })
  return call.faults.get('usageTwice') ? [line, line] : [line]
}

function chunkLine(call: ChatCall, choices: readonly object[], extra: object = {}): string {
  const { request, answer, serial } = call
  const chunk = {
    id: `chatcmpl-fake-${serial}`,
    object: 'chat.completion.chunk',
    created: Math.floor(Date.now() / 1000),
    model: answer.leak ? leaked.model : request.model,
    choices,
    ...extra,
    ...(answer.leak ? leaked.body : {}),
  }
  return `data: ${JSON.stringify(chunk)}\n\n`
}
