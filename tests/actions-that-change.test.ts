import { expect, test } from 'bun:test'
import { adminRoutes } from '../src/actions/registry.ts'
import { unchanging } from '../src/db/queries/log/row-states.ts'

/** What an event says the state of: an action on another kind of target says none. */
const targets: readonly string[] = ['customer', 'gateway_key', 'node', 'model', 'admin']
/** Each changes what the state of its target is made of, or makes or removes the target. */
const changing: readonly string[] = [
  ...['customer.create', 'customer.update', 'customer.token.rotate', 'admin.create', 'admin.revoke'],
  ...['gateway_key.issue', 'gateway_key.update', 'gateway_key.rotate', 'gateway_key.revoke'],
  ...['node.join.confirm', 'node.register', 'node.update', 'node.owner.change', 'node.delete'],
  ...['model.update', 'model.edit', 'model.delete'],
]

test('§36: each action on a target whose state is recorded either changes it, or its event does not vouch for it', () => {
  const about = Object.values(adminRoutes).filter(({ targetType }) => targets.includes(targetType ?? ''))
  expect(about.map(({ action }) => action).sort()).toEqual([...changing, ...unchanging].sort())
})
