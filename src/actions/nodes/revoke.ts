import { tellNode } from './node.ts'

export const revokeNode = tellNode({
  command: 'revoke',
  role: 'admin',
  summary: 'Revoke the node and its keys for good',
  about: 'Never use a node again',
  asks: '{NODE}: revoke for good? You cannot undo this.',
  form: {
    on: 'node',
    when: { admin_state: ['active', 'draining'] },
    verb: 'Revoke',
    title: 'Revoke {name}',
    about: 'The node’s keys stop working at once, its running requests fail, and it can never come back with this id.',
    confirm: '{name}',
    destroys: true,
    done: '{name} is revoked.',
  },
})
