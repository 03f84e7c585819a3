import type { Access } from '../../../actors/accounts/access.ts'
import type { InferenceRequest } from '../../../actors/operations/operation.ts'
import type { TokenQuestion } from '../../../actors/tokens/node-tokens.ts'
import { Problem } from '../../../errors.ts'
import { meantModel } from '../../../machines/rules/eligibility.ts'
import { readJsonText } from '../../../protocol/json/json-body.ts'
import type { HttpContext, HttpExchange } from '../../frame/context.ts'
import { namedOrigin } from '../../frame/cors.ts'
import { inferenceAccess } from '../../inference/inference-access.ts'
import { readPin } from '../../inference/pin.ts'

/** One request about tokens, as Elysia hands it to its handler. */
export interface TokenExchange {
  readonly exchange: HttpExchange
  readonly request: Request
  readonly set: { readonly headers: Record<string, string | number> }
}

export interface SentTokenRequest {
  readonly access: Access
  readonly text: string
}

/** The caller and the body. The request counts toward the account's rate and, since it uses no tokens, toward no quota. */
export async function readTokenRequest(
  context: HttpContext,
  { exchange, request, set }: TokenExchange,
): Promise<SentTokenRequest> {
  const { gateway, connections } = context
  Object.assign(set.headers, namedOrigin(gateway.config.SVC_CORS_ORIGINS, request))
  const access = await inferenceAccess(context, request, exchange.address)
  exchange.keyId = access.keyId
  exchange.proved = true
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  if (access.policy.sealedOnly) throw new Problem('sealed_only')
  if (!gateway.memory.admits(access.customerId)) throw gateway.memory.refusal()
  Object.assign(set.headers, await gateway.limits.takeRequest(access))
  const { SVC_CHAT_BODY_BYTES_MAX: bytesMax } = gateway.config
  const text = await connections.body(request, readJsonText(request, bytesMax, context.jsonTypes))
  return { access, text }
}

/** The question to the nodes: the caller, the model that its name means, and the node that it pins. */
export function questionOf(
  { gateway, otherName }: HttpContext,
  { exchange, request }: TokenExchange,
  access: Access,
  body: Pick<InferenceRequest, 'model' | 'svc'>,
): TokenQuestion {
  const table = gateway.router.table()
  const plain = otherName === null && !table.latest.has(body.model)
  return {
    access,
    modelId: plain ? body.model : meantModel({ table, access, name: body.model, otherName }),
    pin: readPin(body, new URL(request.url).search.slice(1)),
    profileId: body.svc?.model_profile_id ?? null,
    requestId: exchange.requestId,
    signal: request.signal,
  }
}

/** Lifts the connection's idle limit: a node may take some seconds, during which nothing is sent. */
export const whileAsked = <T>({ connections }: HttpContext, request: Request, work: () => Promise<T>): Promise<T> =>
  connections.lifted(request, work)
