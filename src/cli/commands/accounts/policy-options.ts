import type { GatewayPolicy, ModelPolicy } from '../../../protocol/wire/admin/policy.ts'
import type { OptionValues } from '../../frame/action.ts'
import { UsageFault } from '../../frame/failure.ts'
import { givenText, givenTextForm } from '../../frame/given-text.ts'
import type { Session } from '../../frame/session.ts'

/** The loosest first. */
const privacyClasses = ['public', 'trusted', 'private'] as const

/** The options that account policies and key policies share. */
export const modelPolicyOptions = {
  policy: { kind: 'text', value: 'JSON', about: `The whole policy as JSON, or \`none\`; ${givenTextForm}` },
  'allow-model': { kind: 'texts', value: 'PATTERN', about: 'A model that is allowed; a pattern may end in *' },
  'deny-model': { kind: 'texts', value: 'PATTERN', about: 'A model that is not allowed' },
  'node-class': { kind: 'texts', value: 'CLASS', about: 'A route tier that requests may use' },
  'min-privacy-class': {
    kind: 'choice',
    of: privacyClasses,
    about:
      'Whose nodes prompts may go to, where account and key both say so: private (default) only own ones, trusted and public also those of others, which cost money',
  },
  'max-tokens': {
    kind: 'number',
    value: 'N',
    min: 1,
    max: 1_048_576,
    about: 'Largest max_tokens that a request may ask for',
  },
  'allow-external': {
    kind: 'choice',
    of: ['yes', 'no'],
    about: 'Prompts may go to nodes marked external, where account and key both say so (default no)',
  },
  'allow-wake': {
    kind: 'choice',
    of: ['yes', 'no'],
    about: 'Requests may wake sleeping nodes of their owner, unless account or key says no (default yes)',
  },
} as const

export const gatewayPolicyOptions = {
  ...modelPolicyOptions,
  'daily-token-quota': { kind: 'number', value: 'N', min: 1, max: 1_000_000_000_000, about: 'Tokens per day (UTC)' },
  'rate-limit-rpm': { kind: 'number', value: 'N', min: 1, max: 1_000_000, about: 'Requests per minute' },
  'max-concurrency': { kind: 'number', value: 'N', min: 1, max: 100_000, about: 'Requests at the same time' },
} as const

type ModelValues = OptionValues<typeof modelPolicyOptions>
type GatewayValues = OptionValues<typeof gatewayPolicyOptions>

const listed = (list: readonly string[]) => (list.length === 0 ? undefined : [...list])

/** Without the fields that were not given. */
function present<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}

function modelRules(values: ModelValues) {
  return present({
    allowed_models: listed(values['allow-model']),
    denied_models: listed(values['deny-model']),
    route_tiers: listed(values['node-class']),
    min_privacy_class: values['min-privacy-class'],
    allow_external: values['allow-external'] === undefined ? undefined : values['allow-external'] === 'yes',
    allow_wake: values['allow-wake'] === undefined ? undefined : values['allow-wake'] === 'yes',
    max_tokens_per_request: values['max-tokens'],
  })
}

async function wholePolicy(session: Session, value: string | undefined): Promise<object | null | undefined> {
  if (value === undefined || value === 'none') return value === undefined ? undefined : null
  try {
    const policy: unknown = JSON.parse(await givenText(session, 'policy', value))
    if (typeof policy === 'object' && policy !== null && !Array.isArray(policy)) return policy
  } catch (error) {
    if (error instanceof UsageFault) throw error
  }
  throw new UsageFault('--policy must be a JSON object or `none`')
}

/** Applies the single options to `--policy`. undefined if none of them was given. */
async function merged(session: Session, whole: string | undefined, single: object) {
  const given = await wholePolicy(session, whole)
  return Object.keys(single).length === 0 ? given : { ...given, ...single }
}

/** The gateway checks the policy and refuses fields that it does not know. */
export async function keyPolicy(session: Session, values: ModelValues): Promise<ModelPolicy | null | undefined> {
  return merged(session, values.policy, modelRules(values))
}

const accountRules = (values: GatewayValues) => ({
  ...modelRules(values),
  ...present({
    daily_token_quota: values['daily-token-quota'],
    rate_limit_rpm: values['rate-limit-rpm'],
    max_concurrency: values['max-concurrency'],
  }),
})

/** Of a new account. */
export async function accountPolicy(
  session: Session,
  values: GatewayValues,
): Promise<GatewayPolicy | null | undefined> {
  return merged(session, values.policy, accountRules(values))
}

/** What changes of an account's policy: all of it with `--policy`, else the given fields alone. */
export async function accountPolicyChange(session: Session, values: GatewayValues) {
  const changes = accountRules(values)
  if (values.policy !== undefined) return { gateway_policy: await merged(session, values.policy, changes) }
  return Object.keys(changes).length === 0 ? {} : { gateway_policy_changes: changes }
}

type Reach = Pick<ModelPolicy, 'min_privacy_class' | 'allow_external'> | null
const strictnessOf = (policy: Reach) => privacyClasses.indexOf(policy?.min_privacy_class ?? 'private')

/** True if this key would let a prompt go further than its account does, which holds it back. */
export const goesBeyond = (key: Reach, account: Reach): boolean =>
  strictnessOf(key) < strictnessOf(account) || (key?.allow_external === true && account?.allow_external !== true)
