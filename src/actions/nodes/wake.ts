import { Node } from '../../protocol/wire/admin/admin.ts'
import { defineAction } from '../frame/define-action.ts'
import { nodeOperand, tag } from './node.ts'

export const wakeNode = defineAction({
  name: 'node.wake',
  at: 'POST /v1/admin/nodes/:node_id/wake',
  policy: { role: 'operator', category: 'node_control', target: 'node', command: 'node.wake' },
  summary: 'Wake a sleeping node',
  description:
    'Magic packets go out, from here and from awake agents of the same network, until the node answers or SVC_WAKE_WAIT_MS is over.',
  tag,
  result: Node,
  run: async ({ gateway, views, audit, role, params }) =>
    views.nodeNow(gateway, await gateway.nodeSleeps.wake(audit, params.node_id), role),
  command: {
    words: 'nodes wake',
    about: 'Wake a sleeping node by magic packets',
    operands: [nodeOperand],
    asks: null,
    prints: (node, print) => print.nodes([node]),
  },
  form: {
    on: 'node',
    when: { state: ['asleep'] },
    verb: 'Wake',
    title: 'Wake {name}',
    about: 'Magic packets go out until the node answers, for as long as a request would wait for it.',
    done: 'Magic packets go out to {name}.',
  },
})
