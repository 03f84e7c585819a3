import { gzipSync } from 'node:zlib'
import { composeReply, type Reply } from './answer.ts'
import { type ChatCall, errorBody, jsonHeaders, leaked } from './bodies.ts'
import { streamReply } from './stream.ts'

/** Answers one chat request, or fails as its faults say. */
export async function answerChat(call: ChatCall): Promise<void> {
  if (await failsBeforeHeaders(call)) return
  const reply = composeReply(call.answer, call.request)
  if (call.request.stream) await streamReply(call, reply)
  else await respondReply(call, reply)
}

async function respondReply(call: ChatCall, reply: Reply): Promise<void> {
  const { faults, answer, exchange } = call
  const waitMs = call.prefillMs + answer.firstTokenMs + (faults.get('slowFirstToken')?.ms ?? 0)
  if (faults.get('stall') !== undefined) return
  if (!(await call.pause(waitMs + answer.intervalMs * reply.pieces.length))) return
  if (faults.get('jsonErrorBody') ?? faults.get('errorEvent')) {
    exchange.respond(200, jsonHeaders, errorBody(500, 'fake error body under HTTP 200'))
  } else if (faults.get('malformedLine')) {
    exchange.respond(200, jsonHeaders, '{"id":"chatcmpl-fake","choices":[{')
  } else {
    await respondWhole(call, reply)
  }
}

async function failsBeforeHeaders(call: ChatCall): Promise<boolean> {
  const { exchange, faults } = call
  if (faults.get('hang')) return true
  const slow = faults.get('slowHeaders')
  if (slow && !(await call.pause(slow.ms))) return true
  const later = faults.get('failAfter')
  if (later && later.as !== 'errorEvent') {
    if (!(await call.pause(later.ms))) return true
    if (later.as === 'reset') exchange.cut('reset')
    else exchange.respond(500, jsonHeaders, errorBody(500, 'fake failure after a while'))
    return true
  }
  const refusal = statusOf(call)
  if (refusal === null) return false
  exchange.respond(refusal.status, { ...jsonHeaders, ...refusal.headers }, errorBody(refusal.status, 'fake failure'))
  return true
}

function statusOf({ faults }: ChatCall): { status: number; headers: Readonly<Record<string, string>> } | null {
  const failing = faults.get('status500')
  if (failing) return { status: failing.status ?? 500, headers: {} }
  const limited = faults.get('status429')
  if (limited) return { status: 429, headers: { 'retry-after': String(limited.retryAfterS ?? 1) } }
  if (faults.get('status400')) return { status: 400, headers: {} }
  const unhealthy = faults.get('unhealthyOnly') ?? faults.get('flapping')
  return unhealthy ? { status: 503, headers: {} } : null
}

async function respondWhole({ exchange, request, answer, faults, serial }: ChatCall, reply: Reply): Promise<void> {
  const body = wholeBody({ request, answer, faults, serial }, reply)
  const cut = faults.get('dropMidStream')
  if (cut) {
    exchange.head(200, jsonHeaders)
    await exchange.write(body.slice(0, Math.ceil(body.length / 2)))
    exchange.cut(cut.how ?? 'reset')
  } else if (faults.get('gzip')) {
    exchange.respond(200, { ...jsonHeaders, 'content-encoding': 'gzip' }, gzipSync(body))
  } else {
    exchange.respond(200, jsonHeaders, body)
  }
}

function wholeBody(
  { request, answer, faults, serial }: Pick<ChatCall, 'request' | 'answer' | 'faults' | 'serial'>,
  reply: Reply,
): string {
  const huge = faults.get('hugeChunk')
  const content = reply.pieces.join('') + (huge ? 'x'.repeat(huge.bytes) : '')
  const toolCalls = reply.toolCall && [
    {
      id: reply.toolCall.id,
      type: 'function',
      function: { name: reply.toolCall.name, arguments: reply.toolCall.argumentPieces.join('') },
    },
  ]
  const message = {
    role: 'assistant',
    content: toolCalls ? null : content,
    ...(reply.reasoning === null ? {} : { reasoning_content: reply.reasoning }),
    ...(toolCalls ? { tool_calls: toolCalls } : {}),
  }
  return JSON.stringify({
    id: `chatcmpl-fake-${serial}`,
    object: 'chat.completion',
    created: Math.floor(Date.now() / 1000),
    model: answer.leak ? leaked.model : request.model,
    choices: [
      { index: 0, message, finish_reason: reply.finishReason, logprobs: null, ...(answer.leak ? leaked.choice : {}) },
    ],
    ...(faults.get('noUsage') ? {} : { usage: reply.usage }),
    ...(answer.leak ? leaked.body : {}),
  })
}
