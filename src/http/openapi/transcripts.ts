/**
 * One short conversation in every form chat answers in (§6). The test that replays them against the schemas
 * keeps them true.
 */
const id = 'chatcmpl-01M7XP7Z5B6Y2V0Q3T8N4K9RWS'
const requestId = 'req_01M7XP7Z4WJ6D1G5H2C8E3F7AB'
const model = 'llama-3.1-8b'
const head = { id, object: 'chat.completion.chunk', created: 1795190400, model }
const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }
const metadata = {
  runtime_id: 'rt_01M7XP7Z0G4A9B2C6D8E1F3H5J',
  runtime_kind: 'vllm',
  latency_ms: 412,
  ttft_ms: 80,
  receipt_hash: '0x5c0f4e0b6a1d3c2e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e',
  request_id: requestId,
}

const chunkOf =
  (shown: object) =>
  (delta: object, finishReason: string | null, more: object = {}) =>
    `data: ${JSON.stringify({ ...shown, choices: [{ index: 0, delta, finish_reason: finishReason }], ...more })}\n\n`
const chunk = chunkOf(head)
const role = chunk({ role: 'assistant', content: '' }, null)
const text = chunk({ content: 'Hi' }, null)
const keepAlive = ': svc processing\n\n'
const done = 'data: [DONE]\n\n'

const request = { model, messages: [{ role: 'user', content: 'Say hi.' }], stream: true }
const whole = {
  id,
  object: 'chat.completion',
  created: head.created,
  model,
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage,
  svc: metadata,
}

/** Two of three experts answered and agree. The third one found no node. */
const mixture = { strategy: 'vote', experts: [{ model, weight: 2 }, { model: 'qwen3-8b' }, { model: 'gemma-3-12b' }] }
const node_id = 'node_01M7XP7YZ8K3D5F7G9H1J2K4M6'
const trace = {
  strategy: 'vote',
  degraded: true,
  experts: [
    { role: 'expert', model, status: 'ok', node_id, usage: { total_tokens: 11 } },
    { role: 'expert', model: 'qwen3-8b', status: 'ok', node_id, usage: { total_tokens: 12 } },
    { role: 'expert', model: 'gemma-3-12b', status: 'no_node', node_id: '', usage: { total_tokens: 0 } },
  ],
}
const summed = {
  usage: { prompt_tokens: 18, completion_tokens: 5, total_tokens: 23 },
  svc: { ...metadata, mixture: trace },
}

export const requestExamples = {
  single: { summary: 'One model', value: request },
  mixture: { summary: 'Several models, one answer', value: { ...request, model: 'council', svc: { mixture } } },
} as const

export const wholeExamples = {
  single: { summary: 'One model', value: whole },
  mixture: {
    summary: 'Several models: the sum of their usage, and the result of each',
    value: { ...whole, model: 'council', ...summed },
  },
} as const

const mixed = chunkOf({ ...head, model: 'council' })

/** `text/event-stream` bodies by what happened. */
export const streamExamples = {
  terminal_chunk: {
    summary: 'The last chunk contains usage and metadata',
    value: role + text + keepAlive + chunk({}, 'stop', { usage, svc: metadata }) + done,
  },
  include_usage: {
    summary: 'With `stream_options.include_usage`, usage and metadata have their own chunk',
    value:
      role +
      text +
      chunk({}, 'stop') +
      `data: ${JSON.stringify({ ...head, choices: [], usage, svc: metadata })}\n\n` +
      done,
  },
  mixture: {
    summary: 'Several models: nothing until every sub-call has ended, then the whole answer',
    value:
      mixed({ role: 'assistant', content: '' }, null) +
      mixed({ content: 'Hi' }, null) +
      mixed({}, 'stop', summed) +
      done,
  },
  failure: {
    summary: 'The node failed after the stream had begun: an error event without `[DONE]`',
    value:
      role +
      text +
      chunk({}, 'error', {
        error: {
          message: 'The node stopped responding.',
          type: 'server_error',
          param: null,
          code: 'node_lost',
          svc: { request_id: requestId, status: 502, retryable: true, retry_after_seconds: null },
        },
      }),
  },
} as const
