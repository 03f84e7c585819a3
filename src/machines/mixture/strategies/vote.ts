import { matchKey } from './match-key.ts'
import type { Candidate, Candidates, SelectingStrategy } from './strategy.ts'
import { topWeighted } from './weighted.ts'

/** Answers that match. Members come in the order of their experts. */
interface Cluster {
  readonly members: [Candidate, ...Candidate[]]
}

/** Added in the order of the experts, at 12 digits: `0.1 + 0.2` ties with `0.3` (§7). */
export function pooledWeight(members: readonly Candidate[]): number {
  const sum = members.reduce((total, { weight }) => total + weight, 0)
  return Number(sum.toPrecision(12))
}

const heaviest = (members: readonly Candidate[]) => Math.max(...members.map(({ weight }) => weight))

/** Positive if `a` wins. If everything is equal, the cluster with the lowest index wins. */
function compare(a: Cluster, b: Cluster): number {
  return (
    pooledWeight(a.members) - pooledWeight(b.members) ||
    a.members.length - b.members.length ||
    heaviest(a.members) - heaviest(b.members)
  )
}

function clustersOf(candidates: Candidates): readonly Cluster[] {
  const byKey = new Map<string | null, Cluster>()
  for (const candidate of candidates) {
    const key = matchKey(candidate.message)
    const known = byKey.get(key)
    if (known === undefined) byKey.set(key, { members: [candidate] })
    else known.members.push(candidate)
  }
  return [...byKey.values()]
}

/** Matching answers pool their weights; the winner is returned verbatim. */
export const vote: SelectingStrategy = {
  kind: 'selecting',
  state: 'voting',
  quorumDefault: (experts) => Math.ceil(experts / 2),
  accepts: (message) => matchKey(message) !== null,
  select: (candidates) => {
    const winner = clustersOf(candidates).reduce((best, next) => (compare(next, best) > 0 ? next : best))
    return topWeighted(winner.members)
  },
}
