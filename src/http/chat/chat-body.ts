import { Problem } from '../../errors.ts'
import { checkValue, parseJson } from '../../protocol/json/json-body.ts'
import { ChatRequest } from '../../protocol/wire/inference/chat.ts'

/** What a chat body may not carry, at its top level or in `svc`, and what answers it (§3, §27). */
const privateJobKeys = ['encrypted_request', 'envelope', 'ciphertext', 'webhook_url'] as const
const targetingKeys = ['node_id', 'runtime_id', 'route', 'hostname', 'endpoint_url', 'node_url'] as const
/** In `svc` a node may be named: the pin. */
const unpinnedKeys = targetingKeys.filter((key) => key !== 'node_id')

type Json = Record<string, unknown>
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

function refuseForeignKeys(body: Json): void {
  refuseKeys(body, '', targetingKeys)
  if (isObject(body.svc)) refuseKeys(body.svc, 'svc.', unpinnedKeys)
}

function refuseKeys(place: Json, prefix: string, forbiddenTargets: readonly string[]): void {
  for (const job of privateJobKeys) {
    if (job in place) throw new Problem('private_job_payload_not_allowed', { param: prefix + job })
  }
  for (const target of forbiddenTargets) {
    if (target in place) throw new Problem('direct_node_targeting_not_allowed', { param: prefix + target })
  }
}

function refuseRouting(body: ChatRequest): void {
  const mode = body.svc?.dispatch_mode
  if (body.svc?.mixture !== undefined && mode !== undefined && mode !== 'pooled_sync') {
    throw new Problem('mixture_unsupported_path', { param: 'svc.dispatch_mode' })
  }
  if (mode === 'private_job') throw new Problem('private_job_not_supported', { param: 'svc.dispatch_mode' })
  if (mode !== undefined && mode !== 'pooled_sync')
    throw new Problem('dispatch_mode_invalid', { param: 'svc.dispatch_mode' })
  if (body.n != null && body.n > 1) throw new Problem('n_not_supported', { param: 'n' })
  const { max_tokens: most, max_completion_tokens: alias } = body
  if (most != null && alias != null && most !== alias) {
    throw new Problem('invalid_request', {
      param: 'max_completion_tokens',
      detail: 'max_completion_tokens is another name of max_tokens: send one, or the same value in both.',
    })
  }
}

/** The raw body of a chat request, checked in a fixed order; the first fault is the answer. */
export function readChatBody(text: string): ChatRequest {
  const value = parseJson(text)
  if (isObject(value)) refuseForeignKeys(value)
  const body = checkValue(value, ChatRequest)
  refuseRouting(body)
  return body
}

const slug = /^[A-Za-z0-9._-]{1,64}$/

/** The one pin of body and query; null without one. `query`: the raw query string, without `?`. */
export function readPin(body: ChatRequest, query: string): string | null {
  const inBody = body.svc?.node_id ?? null
  if (query === '') return inBody
  const pins = new URLSearchParams(query).getAll('node_id')
  const [inQuery] = pins
  if (inQuery === undefined) return inBody
  if (pins.length > 1)
    throw new Problem('invalid_parameter', { param: 'query.node_id', detail: 'node_id was sent twice.' })
  if (!slug.test(inQuery)) throw new Problem('invalid_parameter', { param: 'query.node_id' })
  if (inBody !== null && inBody !== inQuery) throw new Problem('node_pin_conflict', { param: 'query.node_id' })
  return inQuery
}

/** Where a mixture names a machine all the same, as an error's `param`: what it names does not matter. */
export function mixturePin(body: ChatRequest, query: string): string | null {
  if (body.svc?.node_id !== undefined) return 'svc.node_id'
  // A profile is one model on one runtime of one machine.
  if (body.svc?.model_profile_id !== undefined) return 'svc.model_profile_id'
  return query !== '' && new URLSearchParams(query).has('node_id') ? 'query.node_id' : null
}
