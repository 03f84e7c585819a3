import type { Static, TSchema } from '@sinclair/typebox'
import { Problem } from '../../errors.ts'
import { checkValue, parseJson } from '../../protocol/json/json-body.ts'
import { isObject, type Json } from '../../protocol/json/json-object.ts'
import type { InferenceRequest } from './operation.ts'

/** Fields that an inference body must not have, at its top level or in `svc`, and the refusal (§3, §27). */
const privateJobKeys = ['encrypted_request', 'envelope', 'ciphertext', 'webhook_url'] as const
const targetingKeys = ['node_id', 'runtime_id', 'route', 'hostname', 'endpoint_url', 'node_url'] as const
/** In `svc` a node may be named: the pin. */
const unpinnedKeys = targetingKeys.filter((key) => key !== 'node_id')

/** `place`: before each name in what the client is told. */
export function refuseForeignKeys(body: Json, place = ''): void {
  refuseKeys(body, place, targetingKeys)
  if (isObject(body.svc)) refuseKeys(body.svc, `${place}svc.`, unpinnedKeys)
}

/** Why no request may name this at its top level; null: it may. */
export function foreignKeyProblem(name: string): Problem | null {
  if ((privateJobKeys as readonly string[]).includes(name)) {
    return new Problem('private_job_payload_not_allowed', { param: name })
  }
  const targets = (targetingKeys as readonly string[]).includes(name)
  return targets ? new Problem('direct_node_targeting_not_allowed', { param: name }) : null
}

function refuseKeys(place: Json, prefix: string, forbiddenTargets: readonly string[]): void {
  for (const job of privateJobKeys) {
    if (job in place) throw new Problem('private_job_payload_not_allowed', { param: prefix + job })
  }
  for (const target of forbiddenTargets) {
    if (target in place) throw new Problem('direct_node_targeting_not_allowed', { param: prefix + target })
  }
}

/** `mixes`: the operation can be answered by several models at once. */
export function refuseRouting({ svc, models }: InferenceRequest, mixes: boolean): void {
  const mode = svc?.dispatch_mode
  const unmixed = svc?.mixture !== undefined && !mixes
  if (unmixed) throw new Problem('mixture_unsupported_path', { param: 'svc.mixture' })
  if (svc?.mixture !== undefined && mode !== undefined && mode !== 'pooled_sync') {
    throw new Problem('mixture_unsupported_path', { param: 'svc.dispatch_mode' })
  }
  if (svc?.mixture !== undefined && models != null && models.length > 0) {
    const detail = 'models: a mixture names its own models in svc.mixture. Send models or svc.mixture, not both.'
    throw new Problem('invalid_request', { param: 'models', detail })
  }
  if (mode === 'private_job') throw new Problem('private_job_not_supported', { param: 'svc.dispatch_mode' })
  if (mode !== undefined && mode !== 'pooled_sync')
    throw new Problem('dispatch_mode_invalid', { param: 'svc.dispatch_mode' })
}

/** Policy, quota and quote go by one of the two, and the node may go by the other. */
export function refuseTwoBounds({ max_tokens: most, max_completion_tokens: alias }: InferenceRequest): void {
  if (most == null || alias == null || most === alias) return
  throw new Problem('invalid_request', {
    param: 'max_completion_tokens',
    detail: 'max_completion_tokens is another name of max_tokens: send one, or the same value in both.',
  })
}

/** Clients of OpenRouter may leave `model` out: then it is the first of `models`. The text stays as it came. */
function nameFirst(body: { models?: unknown; model?: unknown }): void {
  const [first] = Array.isArray(body.models) ? (body.models as readonly unknown[]) : []
  if (first !== undefined) body.model = first
}

/**
 * The raw body of a request, checked in a fixed order; the first fault is the answer. `fit`: makes the value that is
 * checked instead.
 */
export function readRequestBody<S extends TSchema>(text: string, schema: S, fit?: (body: Json) => Json): Static<S> {
  const value = parseJson(text)
  if (!isObject(value)) return checkValue(value, schema)
  refuseForeignKeys(value)
  const fitting = fit === undefined ? value : fit(value)
  if (fitting.model === undefined && fitting.models !== undefined) nameFirst(fitting)
  return checkValue(fitting, schema)
}

/** The same where what says nothing is allowed: an empty text or list, and 0. */
export function refuseFilled(body: object, names: readonly string[], why: string): void {
  const said = names.filter((name) => {
    const value = (body as Json)[name]
    return Array.isArray(value) ? value.length > 0 : Boolean(value)
  })
  refuseFields(body, said, why)
}

/** Fields that would change the answer and that no node could honour: refused by name, never ignored in silence. */
export function refuseFields(body: object, names: readonly string[], why: string): void {
  for (const name of names) {
    const value = (body as Json)[name]
    if (value !== undefined && value !== null && value !== false) {
      throw new Problem('invalid_request', { param: name, detail: `${name}: ${why}` })
    }
  }
}
