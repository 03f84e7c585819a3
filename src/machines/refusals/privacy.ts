import { type EffectivePolicy, type PolicyBounds, privacyRank } from '../rules/model-policy.ts'
import type { PrivacyClass, Route } from '../rules/routing.ts'

interface Holder {
  readonly is: 'key' | 'account'
  readonly bounds: PolicyBounds
}

function holdersOf({ bounds: { account, key } }: EffectivePolicy): readonly Holder[] {
  const own: Holder = { is: 'account', bounds: account }
  return key === null ? [own] : [{ is: 'key', bounds: key }, own]
}

const joined = (words: readonly string[]) => words.join(' and ')
const owners = (holders: readonly Holder[]) => joined(holders.map(({ is }) => `the ${is}'s`))
const nodes: Readonly<Record<PrivacyClass, string>> = {
  public: 'public nodes',
  trusted: 'trusted nodes and your own',
  private: 'private nodes, which are your own',
}

/** The class to which a bound must come down for one of these routes; `private` means the caller's own nodes (§8). */
function neededClass(routes: readonly Route[]): PrivacyClass {
  return routes.some(({ privacyClass }) => privacyRank[privacyClass] >= privacyRank.trusted) ? 'trusted' : 'public'
}

/** `This key and its account may use only private nodes, which are your own`. */
function whoMayUse(holders: readonly Holder[], keyed: boolean): string {
  const [first, second] = holders
  if (first === undefined) return ''
  const firstName = first.is === 'key' ? 'This key' : keyed ? 'The account of this key' : 'This account'
  const only = ({ bounds }: Holder) => `only ${nodes[bounds.privacyClass]}`
  if (second === undefined) return `${firstName} may use ${only(first)}`
  if (first.bounds.privacyClass === second.bounds.privacyClass)
    return `${firstName} and its account may use ${only(first)}`
  return `${firstName} may use ${only(first)}, its account ${only(second)}`
}

/**
 * Of routes that are all below what key and account ask for: whose bound it is, and what would change it. `own`: only the
 * caller's own nodes may serve it anyway.
 */
export function privacyRefused(model: string, routes: readonly Route[], policy: EffectivePolicy, own: boolean): string {
  const needed = neededClass(routes)
  const blocking = holdersOf(policy).filter(({ bounds }) => privacyRank[bounds.privacyClass] > privacyRank[needed])
  const refused = `${whoMayUse(blocking, policy.bounds.key !== null)}, and none serves ${model}.`
  if (own) return `${refused} This request may use your own nodes alone: connect one that serves ${model}.`
  return `${refused} Ask the operator to set ${owners(blocking)} min_privacy_class to ${needed}.`
}

/** Only hosted providers serve it, to which prompts go where account and key say so. */
export function externalRefused(model: string, policy: EffectivePolicy): string {
  const whose = owners(holdersOf(policy).filter(({ bounds }) => !bounds.external))
  return `Only a hosted provider serves ${model}, and ${whose} policy keeps prompts from it. Ask the operator to set ${whose} allow_external to true.`
}
