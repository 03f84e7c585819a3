import { defineAction } from '../frame/define-action.ts'

export const refuseJoin = defineAction({
  name: 'node.join.refuse',
  at: 'POST /v1/admin/joins/:join_id/refuse',
  policy: { role: 'operator', category: 'node_control', target: 'join' },
  summary: 'Refuse a computer that asks to join',
  tag: 'Nodes (extension)',
  run: ({ gateway, audit, params }) => gateway.joining.refuse(params.join_id, audit),
  command: {
    words: 'nodes refuse',
    about: 'Refuse a computer that asks to join. It may ask again',
    operands: [{ name: 'JOIN_ID', is: 'join_id', about: 'The id (join_…), as `nodes join` shows it' }],
    after: 'enroll',
    prints: 'Refused {JOIN_ID}.',
    gives: { refused: true },
  },
  form: {
    on: 'join',
    verb: 'Refuse',
    title: 'Refuse “{words}”',
    about: 'The computer does not become a node. It may ask again, with other words.',
    done: 'The computer with the words “{words}” is refused.',
  },
})
