import { NodeProbe, NodeProbeAsk } from '../../protocol/wire/nodes/probe.ts'
import { defineAction } from '../frame/define-action.ts'
import { tag } from './node.ts'
import { refuseItself } from './refuse-itself.ts'

/** What answers at a URL, before it becomes a node. A POST, since its body may hold a key, which belongs in no query. */
export const probeNode = defineAction({
  name: 'node.probe',
  at: 'POST /v1/admin/nodes/probe',
  policy: {
    role: 'operator',
    category: 'node_control',
    target: null,
    reasonRequired: false,
    requirement: 'role_token',
  },
  summary: 'Look at a model server before it becomes a node',
  description: 'Asks the URL by GET as a poll would, runs no completion, and registers nothing.',
  tag,
  body: NodeProbeAsk,
  result: NodeProbe,
  run: ({ gateway, views, body, signal }) => {
    refuseItself(gateway, body.url)
    return views.probed(gateway, body, signal)
  },
})
