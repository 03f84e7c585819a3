import type { Customer, Key } from '../../protocol/wire/admin/accounts.ts'
import type { ActField, Choice, Values } from './act.ts'

/** How far prompts may go, in the fields of the policies that accounts and keys have. */
export type Reach = Pick<NonNullable<Customer['gateway_policy']>, 'min_privacy_class' | 'allow_external'>
type Policy = Customer['gateway_policy'] | Key['model_policy']
type PrivacyClass = NonNullable<Reach['min_privacy_class']>

/** The strictest first: it is the default. */
const words: readonly (readonly [PrivacyClass, string])[] = [
  ['private', 'own nodes only'],
  ['trusted', 'own nodes and trusted nodes of others'],
  ['public', 'own nodes and all public nodes of others'],
]
const choices: readonly Choice[] = words.map(([value, label]) => ({ value, label }))
const [notHosted, hosted] = ['no', 'yes, to nodes marked external'] as const
const hostedChoices: readonly Choice[] = [
  { value: 'no', label: notHosted },
  { value: 'yes', label: hosted },
]
const labels = { reach: 'Prompts may go to', hosted: 'Hosted providers' } as const

const classOf = (policy: Policy): PrivacyClass => policy?.min_privacy_class ?? 'private'
const isHosted = (policy: Policy): boolean => policy?.allow_external === true

/** What both have to allow, in a sentence for the form. */
export const bothAllow = 'A prompt leaves the account’s own nodes only if the account and the key both allow it.'

/** `policy`: what is chosen at first. */
export const reachFields = (policy: Policy = null): readonly ActField[] => [
  {
    name: 'reach',
    label: labels.reach,
    kind: 'choice',
    of: choices,
    value: classOf(policy),
    hint: 'calls on nodes of others are paid from the balance; own nodes are free and come first',
  },
  {
    name: 'hosted',
    label: labels.hosted,
    kind: 'choice',
    of: hostedChoices,
    value: isHosted(policy) ? 'yes' : 'no',
  },
]

/** Only what differs from the default. */
export const reachOf = ({ reach = 'private', hosted = 'no' }: Values): Reach => ({
  ...(reach === 'private' ? {} : { min_privacy_class: reach as PrivacyClass }),
  ...(hosted === 'yes' ? { allow_external: true } : {}),
})

/** What the person has changed of what the form showed; null: the default. */
export function reachChanges(before: Policy, values: Values): { readonly [K in keyof Reach]?: Reach[K] | null } {
  const { min_privacy_class = null, allow_external = null } = reachOf(values)
  return {
    ...((min_privacy_class ?? 'private') === classOf(before) ? {} : { min_privacy_class }),
    ...((allow_external ?? false) === isHosted(before) ? {} : { allow_external }),
  }
}

const wordOf = (policy: Policy) => words.find(([name]) => name === classOf(policy))?.[1] ?? ''

/** What the two fields say of a policy. */
export const reachSays = (policy: Policy) => ({
  [labels.reach]: wordOf(policy),
  [labels.hosted]: isHosted(policy) ? hosted : notHosted,
})

export function reachText(policy: Policy): string {
  return isHosted(policy) ? `${wordOf(policy)}, hosted providers too` : wordOf(policy)
}

const strictnessOf = (policy: Policy) => -words.findIndex(([name]) => name === classOf(policy))

/** True if the key's policy allows what the account's does not. */
export const goesBeyond = (key: Policy, account: Policy): boolean =>
  strictnessOf(key) < strictnessOf(account) || (isHosted(key) && !isHosted(account))
