import type { NodeCommand } from '../../actors/pool/pool-admin.ts'
import type { CommandAction } from '../../machines/rules/admin-route.ts'
import { Node } from '../../protocol/wire/admin/admin.ts'
import { defineAction } from '../frame/define-action.ts'
import type { ActionForm } from '../frame/form.ts'

export const tag = 'Nodes (extension)'
/** A name is looked up. */
export const nodeOperand = {
  name: 'NODE',
  is: 'node_id',
  about: 'The node’s name or its id (node_…), as `nodes list` shows them',
} as const

interface Told<C extends NodeCommand> {
  readonly command: C
  readonly role: 'operator' | 'admin'
  readonly summary: string
  readonly about: string
  readonly asks: string | null
  readonly form: ActionForm
}

/** A command to a node. Repeating one is no error. */
export const tellNode = <const C extends NodeCommand>({ command, role, summary, about, asks, form }: Told<C>) =>
  defineAction({
    name: `node.${command}`,
    at: `POST /v1/admin/nodes/:node_id/${command}`,
    policy: { role, category: 'node_control', target: 'node', command: `node.${command}` satisfies CommandAction },
    summary,
    tag,
    result: Node,
    run: async ({ gateway, views, audit, role: reader, params }) =>
      views.nodeNow(gateway, await gateway.pool.by(audit).setNodeAdminState(params.node_id, command), reader),
    command: {
      words: `nodes ${command}`,
      about,
      operands: [nodeOperand],
      asks,
      prints: (node, print) => print.nodes([node]),
    },
    form,
  })
