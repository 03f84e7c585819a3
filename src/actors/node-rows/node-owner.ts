import type { Database } from '../../db/client.ts'
import { getCustomer } from '../../db/queries/accounts/accounts.ts'
import { hasUnnamedEarnings } from '../../db/queries/money/payouts.ts'
import { lockNode, type NodeRow, passNode } from '../../db/queries/pool/pool.ts'
import { Problem } from '../../errors.ts'
import type { CustomerId } from '../../ids.ts'
import { checkPrecondition, type Precondition } from '../../precondition.ts'
import { refuseTwice } from './node-checks.ts'

const refused = (detail: string) => new Problem('invalid_state', { detail })

/**
 * Gives a node without an agent to another account, and nothing of what its former owner had with it: it becomes private, and its
 * API key and payout address are removed. Refuses with `node_not_found`, `customer_not_found`, `precondition_failed`, `node_exists`, or
 * `invalid_state`: it has this owner, has an agent, is revoked, is not drained, or has earned what would go to the new owner.
 */
export async function changeOwner(
  tx: Database,
  nodeId: string,
  customerId: string,
  precondition: Precondition | null,
): Promise<NodeRow> {
  const node = await lockNode(tx, nodeId)
  if (node === null) throw new Problem('node_not_found')
  checkPrecondition(precondition, node)
  if ((await getCustomer(tx, customerId)) === null) throw new Problem('customer_not_found')
  // An event of nothing would vouch for the row as it is, also where somebody has written into the database.
  if (node.customerId === customerId) throw refused('The node is this customer’s already')
  // A person at its computer joined it for one account. Keys of that account open the agent's own door, and its nodes copy the models.
  if (node.kind === 'agent') {
    throw refused(
      'Its agent joined for its owner. Have the computer join again, for the other account and in a new folder',
    )
  }
  if (node.adminState === 'revoked') throw refused('An operator has revoked this node')
  if (node.adminState !== 'draining') throw refused('The node gets work of its owner. Drain it first')
  if (await hasUnnamedEarnings(tx, node.nodeId)) {
    throw refused('It earned before it had a payout address. Set the address of its owner and pay out first')
  }
  if (node.url !== null) await refuseTwice(tx, customerId, node.url)
  const passed = await passNode(tx, node, customerId as CustomerId)
  if (passed === null) throw refused('An operator has revoked this node')
  return passed
}
