import { Node } from '../../protocol/wire/admin/admin.ts'
import { defineAction } from '../frame/define-action.ts'
import { nodeOperand, tag } from './node.ts'

export const sleepNode = defineAction({
  name: 'node.sleep',
  at: 'POST /v1/admin/nodes/:node_id/sleep',
  policy: { role: 'operator', category: 'node_control', target: 'node', command: 'node.sleep' },
  summary: 'The node sleeps, and requests wake it',
  description:
    'An agent with a command for it suspends its computer. Of any other node the gateway takes your word: its silence is no failure from now on. Refused while anything runs there.',
  tag,
  result: Node,
  run: async ({ gateway, views, audit, role, params }) =>
    views.nodeNow(gateway, await gateway.nodeSleeps.sleep(audit, params.node_id), role),
  command: {
    words: 'nodes sleep',
    about: 'Send a node to sleep, or say that it sleeps. Requests wake it',
    operands: [nodeOperand],
    asks: null,
    prints: (node, print) => print.nodes([node]),
  },
  form: {
    on: 'node',
    when: { state: ['ready', 'live', 'stale', 'offline'] },
    verb: 'Sleep',
    title: 'Send {name} to sleep',
    about:
      'An agent that was started with a command for it suspends its computer. Of any other node the gateway takes your word that it sleeps. It is no longer reported as away, and requests that only it can serve wake it.',
    done: '{name} sleeps.',
    undo: 'node.wake',
  },
})
