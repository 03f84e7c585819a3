import { expect, test } from 'bun:test'
import { Problem, type ProblemCode } from '../../../src/errors.ts'
import { newId } from '../../../src/ids.ts'
import { type LocalChat, runByChat } from '../../../src/node/commands/command-work.ts'
import type { CommandSubmit } from '../../../src/protocol/wire/admin/command.ts'

const command = { request_id: newId('req'), runtime_id: 'rt_1', model_id: 'public' } as CommandSubmit
const chat = { model: 'own-name', messages: [{ role: 'user', content: 'hi' }] }
const { signal } = new AbortController()
const run = (local: LocalChat, body: Readonly<Record<string, unknown>> = chat) =>
  runByChat(local)({ chat: body, command, signal })

test('the runtime of the job is asked; the answer carries the customer’s name of the model', async () => {
  const calls: Parameters<LocalChat>[0][] = []
  const choices = [{ index: 0, message: { role: 'assistant', content: 'ho' }, finish_reason: 'stop' }]
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  const outcome = await run(async (call) => {
    calls.push(call)
    return Response.json({ model: 'own-name', choices, usage, svc: { runtime_kind: 'vllm', request_id: 'x' } })
  })
  expect(calls[0]).toMatchObject({ runtimeId: 'rt_1', order: null, requestId: command.request_id, body: chat })
  expect(JSON.parse(calls[0]?.text ?? '')).toEqual(chat)
  expect(outcome).toEqual({
    kind: 'answered',
    answer: { model: 'public', choices, usage },
    runtimeKind: 'vllm',
    promptTokens: 3,
    completionTokens: 2,
  })
})

const refusing =
  (code: ProblemCode): LocalChat =>
  () =>
    Promise.reject(new Problem(code))

test('§10: what another attempt may mend is retryable; what is said of the request itself is a sealed answer', async () => {
  expect(await run(refusing('model_not_found'))).toEqual({ kind: 'failed', code: 'model_unavailable' })
  expect(await run(refusing('capacity_exhausted'))).toEqual({ kind: 'failed', code: 'model_unavailable' })
  expect(await run(refusing('upstream_error'))).toEqual({ kind: 'failed', code: 'runtime_error' })
  expect(await run(refusing('invalid_request'))).toMatchObject({
    kind: 'answered',
    answer: { error: { code: 'invalid_request' } },
    promptTokens: 0,
  })
  expect(await run(refusing('upstream_error'), { ...chat, messages: [{ role: 'nobody' }] })).toMatchObject({
    answer: {
      error: {
        code: 'invalid_request',
        message: 'messages[0].role must be one of system, user, assistant, tool, developer; you sent nobody.',
      },
    },
  })
})
