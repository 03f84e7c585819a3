import { Discovered, DiscoveryAsk } from '../../protocol/wire/nodes/discovery.ts'
import { defineAction } from '../frame/define-action.ts'
import { tag } from './node.ts'
import { isItself } from './refuse-itself.ts'

/** Its command takes a range as its operand: `nodes discover`. */
export const discoverNodes = defineAction({
  name: 'node.discover',
  at: 'POST /v1/admin/nodes/discover',
  policy: {
    role: 'operator',
    category: 'node_control',
    target: null,
    reasonRequired: false,
    requirement: 'role_token',
  },
  summary: 'Look for model servers on the gateway’s network',
  description:
    'Asks each address of the named range on the usual ports, or the servers that announce themselves, by GET as a poll would. It registers nothing, and ends when the caller leaves.',
  tag,
  body: DiscoveryAsk,
  mayBeEmpty: true,
  result: Discovered,
  run: ({ gateway, views, body, signal, lifted }) =>
    lifted(() => views.discovered(gateway, body, (url) => isItself(gateway, url), signal)),
})
