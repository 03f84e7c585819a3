import type { MixtureInput } from '../../../src/machines/mixture/context.ts'
import { mixtureDeadlines } from '../../../src/machines/mixture/deadlines.ts'
import type { MeteredCall, MixtureRequest, SubCallResult } from '../../../src/machines/mixture/types.ts'
import { mergePolicies } from '../../../src/machines/rules/model-policy.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import type { GatewayPolicy } from '../../../src/protocol/wire/admin/policy.ts'
import { nowMs, route, table } from '../rules/routes.ts'
import { said } from './messages.ts'

export const wallMs = 10_000

interface RequestChange {
  readonly body?: object
  readonly pinParam?: string
  readonly account?: GatewayPolicy
  readonly accountStatus?: string
  readonly routes?: readonly Route[]
}

export const own = (model: string, change: Parameters<typeof route>[1] = {}) =>
  route(model, { modelId: model, ...change })
const ownMachines = ['a', 'b', 'c', 'agg'].map((model) => own(model))

export function mixtureRequest(mixture: unknown, change: RequestChange = {}): MixtureRequest {
  return {
    body: { model: 'council', messages: [{ role: 'user', content: 'hi' }], ...change.body, svc: { mixture } },
    pinParam: change.pinParam ?? null,
    access: {
      customerId: 'me',
      accountStatus: change.accountStatus ?? 'active',
      policy: mergePolicies(change.account ?? null, { policy: null, nodeScope: null }),
    },
    table: table(...(change.routes ?? ownMachines)),
    bounds: { expertsMax: 4, tokensMax: 65_536, outputTokensDefault: 1_024 },
    nowMs,
  }
}

export const mixtureInput = (mixture: unknown, change?: RequestChange): MixtureInput => ({
  requestId: 'req_test',
  request: mixtureRequest(mixture, change),
  deadlines: mixtureDeadlines(mixture, wallMs, 0),
})

export const experts = (...models: readonly string[]) => models.map((model) => ({ model }))
export const vote = (...models: readonly string[]) => ({ strategy: 'vote', experts: experts(...models) })
export const synthesize = (...models: readonly string[]) => ({
  strategy: 'synthesize',
  experts: experts(...models),
  aggregator: { model: 'agg' },
})

export const call = (name: string, completion = 1): MeteredCall => ({
  requestId: `req_${name}`,
  nodeId: `node_${name}`,
  runtimeId: `rt_${name}`,
  runtimeKind: 'openai',
  usage: { prompt_tokens: 10, completion_tokens: completion, total_tokens: 10 + completion },
  usageEstimated: false,
  receiptHash: `0x${name}`,
  latencyMs: 5,
})
export const ok = (name: string, text = `says ${name}`): SubCallResult => ({
  status: 'ok',
  choice: { message: said(text), finish_reason: 'stop' },
  call: call(name),
})
export const broken = (name: string): SubCallResult => {
  const { requestId, nodeId, runtimeId, runtimeKind } = call(name)
  return { status: 'upstream_error', call: { requestId, nodeId, runtimeId, runtimeKind } }
}
