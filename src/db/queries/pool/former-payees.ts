import type { nodes } from '../../schema/pool.ts'

type OwnedNode = Pick<typeof nodes.$inferSelect, 'customerId' | 'payoutAddress' | 'formerPayees'>

/**
 * So many former owners are known by their addresses, the newest ones. A charge waits for a commit, and not for so many changes of its node's owner.
 */
const formerPayeesMax = 16
/** Beside the owners: their ids, oldest first, with spaces between. JSONB keeps no order, and no id of a customer is this word. */
const inTurn = 'in_turn'

/** What a node keeps of its owners for charges that still come, when it passes to another one (docs/decisions/0057). */
export function formerPayees({
  customerId,
  payoutAddress,
  formerPayees: before,
}: OwnedNode): OwnedNode['formerPayees'] {
  if (payoutAddress === null) return before
  const { [inTurn]: turns = '', ...addresses } = before ?? {}
  const listed = turns.split(' ').filter((id) => Object.hasOwn(addresses, id))
  // A version before has added these without a word about their turn.
  const others = Object.keys(addresses).filter((id) => !listed.includes(id))
  const known = { ...addresses, [customerId]: payoutAddress }
  const newest = [...listed, ...others]
    .filter((id) => id !== customerId)
    .concat(customerId)
    .slice(-formerPayeesMax)
  return { ...Object.fromEntries(newest.map((id) => [id, known[id] ?? ''])), [inTurn]: newest.join(' ') }
}
