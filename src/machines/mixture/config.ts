import { Problem } from '../../errors.ts'
import { modelName } from '../../protocol/dialects/values.ts'
import { type FieldSchema, fieldSentence, unknownField } from '../../protocol/validation/sentences.ts'
import { mixtureConfig, reservedStrategy } from '../../protocol/wire/inference/mixture.ts'
import { isStrategyName, type StrategyName, strategies, strategyNames } from './strategies/registry.ts'
import type { Expert, MixtureConfig } from './types.ts'

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

const root = 'svc.mixture'
const Config = mixtureConfig(strategyNames)
const { strategy: Strategy, experts: Experts, aggregator: Aggregator, min_experts: Quorum } = Config.properties
const { items: OneExpert } = Experts
/** These fields have their own code (§3). Every other unknown field is `mixture_invalid`. */
const forbiddenKeys = ['node_id', 'route', 'hostname']
/** The same bound as for a request's own `model`, characters. */
const modelLengthMax = 256

/** The refusal of a field. `path`: below `svc.mixture`. */
function invalid(path: string, schema: FieldSchema, value: unknown): Problem {
  const param = path === '' ? root : `${root}.${path}`
  return new Problem('mixture_invalid', { param, detail: fieldSentence(param, schema, value) })
}

function unknownKey(value: Json, schema: FieldSchema, path: string, allowed: readonly string[] = []): Problem | null {
  const known = [...Object.keys(schema.properties as object), ...allowed]
  const key = Object.keys(value).find((name) => !known.includes(name))
  if (key === undefined) return null
  // The name is the caller's own text, so `param` shows it only if it looks like a name.
  const shown = /^[A-Za-z0-9_]{1,64}$/.test(key) ? key : '*'
  const param = `${root}.${path === '' ? '' : `${path}.`}${shown}`
  return new Problem('mixture_invalid', { param, detail: unknownField(param, key, schema) })
}

function modelFault(value: Json, path: string): Problem | null {
  const { model } = value
  if (typeof model === 'string' && model !== '' && model.length <= modelLengthMax) return null
  return invalid(`${path}.model`, modelName, model)
}

function readStrategy(given: unknown): StrategyName | Problem {
  if (given === reservedStrategy) {
    return new Problem('mixture_strategy_reserved', {
      param: `${root}.strategy`,
      detail: `The strategy ${reservedStrategy} is reserved for a later version. Use one of ${strategyNames.join(', ')}.`,
    })
  }
  if (isStrategyName(given)) return given
  return invalid('strategy', Strategy, given)
}

function expertFault(value: unknown, path: string): Problem | null {
  if (!isObject(value)) return invalid(path, OneExpert, value)
  const model = modelFault(value, path)
  if (model !== null) return model
  if ('weight' in value) {
    const { weight } = value
    if (typeof weight !== 'number' || !Number.isFinite(weight) || weight <= 0) {
      return invalid(`${path}.weight`, OneExpert.properties.weight, weight)
    }
  }
  return unknownKey(value, OneExpert, path, forbiddenKeys)
}

function readExperts(given: unknown): readonly Json[] | Problem {
  if (!Array.isArray(given) || given.length === 0) return invalid('experts', Experts, given)
  for (const [at, expert] of given.entries()) {
    const fault = expertFault(expert, `experts[${at}]`)
    if (fault !== null) return fault
  }
  return given as readonly Json[]
}

function forbiddenFault(value: unknown, path: string): Problem | null {
  if (!isObject(value)) return null
  const key = forbiddenKeys.find((name) => name in value)
  if (key === undefined) return null
  const param = `${root}.${path}.${key}`
  return new Problem('mixture_expert_field_forbidden', {
    param,
    detail: `${param} cannot be set, because the gateway chooses the nodes of a mixture. Leave it out.`,
  })
}

function readAggregator(given: unknown): string | Problem {
  if (!isObject(given)) return invalid('aggregator', Aggregator, given)
  return modelFault(given, 'aggregator') ?? unknownKey(given, Aggregator, 'aggregator') ?? (given.model as string)
}

function readQuorum(mixture: Json, strategy: StrategyName, experts: number): number | Problem {
  if (!('min_experts' in mixture)) return strategies[strategy].quorumDefault(experts)
  const { min_experts: quorum } = mixture
  if (typeof quorum === 'number' && Number.isInteger(quorum) && quorum >= 1 && quorum <= experts) return quorum
  return invalid('min_experts', { ...Quorum, maximum: experts }, quorum)
}

const expertOf = ({ model, weight }: Json): Expert => ({ model: model as string, weight: (weight as number) ?? 1 })

/**
 * `svc.mixture` as it was sent, in the order of §7: strategy, experts, cap, forbidden fields, aggregator, pin,
 * quorum. The first fault is the answer.
 */
export function readMixtureConfig(
  given: unknown,
  { expertsMax, pinParam }: { readonly expertsMax: number; readonly pinParam: string | null },
): MixtureConfig | Problem {
  if (!isObject(given)) return invalid('', Config, given)
  const strategy = readStrategy(given.strategy)
  if (strategy instanceof Problem) return strategy
  const unknown = unknownKey(given, Config, '')
  if (unknown !== null) return unknown
  const experts = readExperts(given.experts)
  if (experts instanceof Problem) return experts
  if (experts.length > expertsMax) {
    const detail = `${root}.experts may have at most ${expertsMax} experts here; you sent ${experts.length}.`
    return new Problem('mixture_too_many_experts', { param: `${root}.experts`, detail })
  }
  const aggregates = strategies[strategy].kind === 'aggregating'
  for (const [at, expert] of experts.entries()) {
    const forbidden = forbiddenFault(expert, `experts[${at}]`)
    if (forbidden !== null) return forbidden
  }
  const forbidden = aggregates ? forbiddenFault(given.aggregator, 'aggregator') : null
  if (forbidden !== null) return forbidden
  const aggregator = aggregates ? readAggregator(given.aggregator) : null
  if (aggregator instanceof Problem) return aggregator
  if (pinParam !== null) return new Problem('mixture_pin_conflict', { param: pinParam })
  const minExperts = readQuorum(given, strategy, experts.length)
  if (minExperts instanceof Problem) return minExperts
  return { strategy, experts: experts.map(expertOf), aggregator, minExperts }
}
