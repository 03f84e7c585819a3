import { foreignAnswer } from '../protocol/json/foreign-json.ts'
import type { JobRead, JobStatus, NodeKeys } from '../protocol/wire/inference/job.ts'

/** What a gateway answers about private jobs, read and checked: answers, and refusals as errors. */

/** What the gateway says about its refusal. */
export interface RefusalText {
  readonly title: string | null
  readonly detail: string | null
  readonly requestId: string | null
}

/** A refusal of the gateway; `code` as in its error catalogue, `unknown` for an answer that is no gateway's. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  constructor(
    readonly status: number,
    readonly code: string,
    readonly text: RefusalText,
  ) {
    super(`the gateway refused: ${code}${text.detail === null ? '' : ` (${text.detail})`}`)
  }
}

/** Something answered in the gateway's place, or a proxy changed its answer: it has not the shape of one. */
export class GatewayAnswerError extends Error {
  override readonly name = 'GatewayAnswerError'
  constructor(readonly status: number) {
    super(`the gateway answered HTTP ${status} with something that is no answer to this request`)
  }
}

/** The largest sealed answer in base64url, and what stands around it. */
const answerBytesMax = 16 * 1024 * 1024

export type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

/** Throws `GatewayError` and `GatewayAnswerError`. */
export async function answerOf<T>(response: Response, isAnswer: (answer: Fields) => answer is Fields & T): Promise<T> {
  const answer = await foreignAnswer(response, answerBytesMax)
  const fields = isFields(answer) ? answer : {}
  if (response.ok && isAnswer(fields)) return fields
  if (response.ok) throw new GatewayAnswerError(response.status)
  const { code, title, detail, request_id } = fields
  const text = { title: wordsOf(title), detail: wordsOf(detail), requestId: wordsOf(request_id) }
  throw new GatewayError(response.status, wordsOf(code) ?? 'unknown', text)
}

export type Created = Pick<JobRead, 'job_id' | 'created_at'> & { readonly command_id: string }

// What the shapes of the wire say of the members that are read here: a browser need not carry the whole schema.
export const isCreated = (answer: Fields): answer is Fields & Created =>
  [answer.job_id, answer.command_id, answer.created_at].every((text) => typeof text === 'string')
const statuses: Readonly<Record<JobStatus, true>> = {
  queued: true,
  dispatched: true,
  running: true,
  completed: true,
  failed: true,
  expired: true,
  cancelled: true,
}
export const isJobRead = (answer: Fields): answer is Fields & JobRead =>
  Object.hasOwn(statuses, String(answer.status)) &&
  (answer.status !== 'completed' || isFields(answer.encrypted_response))
const isKey = (key: unknown) =>
  isFields(key) && [key.public_key_x25519, key.signature_ed25519].every((text) => typeof text === 'string')
export const isNodeKeys = (answer: Fields): answer is Fields & NodeKeys =>
  typeof answer.identity_public_key_ed25519 === 'string' && Array.isArray(answer.keys) && answer.keys.every(isKey)

const wordsOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
