import type { WaitingJoin } from '../../protocol/wire/nodes/join.ts'
import type { Act, Choice } from './act.ts'
import { defaults, nodeName, owner, removeNode } from './node-acts.ts'

/** The form names the words once more: they go along, so that nothing else is confirmed than what the person has read. */
export const confirmJoin = ({ join_id, name, words }: WaitingJoin, customers: readonly Choice[]): Act => ({
  actions: ['node.join.confirm'],
  verb: 'Confirm',
  title: `Confirm “${words}”`,
  about:
    'Only if the other computer shows exactly these six words. If it shows others, somebody stands between the two, or it asks another gateway.',
  fields: [{ ...nodeName, hint: 'as lists show it', ...(name === null ? {} : { value: name }) }, owner(customers)],
  run: ({ name: typed = '', customer_id }, send) => {
    const named = typed.trim() === '' ? {} : { name: typed.trim() }
    const body = { ...defaults, ...named, words, customer_id }
    return send({ action: 'node.join.confirm', method: 'POST', path: `/v1/admin/joins/${join_id}/confirm`, body })
  },
  done: 'The computer is a node now.',
  undo: removeNode,
})
