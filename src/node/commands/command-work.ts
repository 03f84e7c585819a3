import { Problem } from '../../errors.ts'
import { fitMessages } from '../../protocol/chat/fit-messages.ts'
import { checkValue } from '../../protocol/json/json-body.ts'
import type { CommandSubmit } from '../../protocol/wire/admin/command.ts'
import { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import type { Work, WorkOutcome } from './sealed-work.ts'

/** The agent's own chat: one call at one of its runtimes, answered as a whole. */
export type LocalChat = (call: {
  readonly requestId: string
  readonly body: ChatRequest
  readonly text: string
  readonly runtimeId: string | null
  /** A chat for a job has no receipt of its own, because the job has one. */
  readonly order: null
  readonly signal: AbortSignal
}) => Promise<Response>

/** Codes for a runtime that is missing at the moment, so that another attempt may find it. */
const absent: ReadonlySet<string> = new Set([
  'model_not_found',
  'modality_not_supported',
  'runtime_not_found',
  'runtime_unavailable',
  'capacity_exhausted',
  'service_unavailable',
])

/** Runs a sealed chat in the same way as any other, so that slots, limits and shutdown apply to it. */
export function runByChat(chat: LocalChat): (work: Work) => Promise<WorkOutcome> {
  return async ({ chat: sealed, command, signal }) => {
    try {
      const body = checkValue(sealed, ChatRequest)
      fitMessages(body)
      const text = JSON.stringify(body)
      const call = { requestId: command.request_id, body, text, runtimeId: command.runtime_id, order: null, signal }
      return answered(await (await chat(call)).json(), command)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (absent.has(error.code)) return { kind: 'failed', code: 'model_unavailable' }
      // A refusal by the runtime is an answer, and only the customer may read it.
      return error.status < 500 ? refused(error.code, error.message) : { kind: 'failed', code: 'runtime_error' }
    }
  }
}

const refused = (code: string, message: string): WorkOutcome => ({
  kind: 'answered',
  answer: { error: { code, message } },
  runtimeKind: 'other',
  promptTokens: 0,
  completionTokens: 0,
})

interface Completion {
  readonly usage?: { readonly prompt_tokens?: unknown; readonly completion_tokens?: unknown }
  readonly svc?: { readonly runtime_kind?: unknown }
}

const count = (value: unknown) => (typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : 0)

/** The answer names the model as the customer does, and omits the agent's fields for gateways. */
function answered(completion: unknown, { model_id }: CommandSubmit): WorkOutcome {
  const { svc, ...rest } = completion as Completion
  return {
    kind: 'answered',
    answer: { ...rest, model: model_id },
    runtimeKind: typeof svc?.runtime_kind === 'string' ? svc.runtime_kind : 'other',
    promptTokens: count(rest.usage?.prompt_tokens),
    completionTokens: count(rest.usage?.completion_tokens),
  }
}
