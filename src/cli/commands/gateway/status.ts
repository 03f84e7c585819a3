import type { Static } from '@sinclair/typebox'
import { version } from '../../../../package.json'
import type { FirstToken, Node, NodeList } from '../../../protocol/wire/admin/admin.ts'
import type { AdminModelList } from '../../../protocol/wire/admin/catalogue.ts'
import type { Health } from '../../../protocol/wire/admin/report.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes } from '../../frame/failure.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'
import { firstTokenText, lastFirstToken } from '../../frame/measured.ts'
import { fields, table } from '../../frame/table.ts'
import type { Terminal } from '../../frame/terminal.ts'

/** `null` means that only an admin token shows the value. */
interface Status {
  readonly base_url: string
  readonly state: Health['status']
  /** The version of the HTTP interface, or null if the gateway does not say. */
  readonly interface_version: string | null
  /** The version of this program, which may differ from the gateway's. */
  readonly command_line_version: string
  readonly nodes: Readonly<Record<string, number>> | null
  readonly in_flight: number | null
  readonly models:
    | readonly {
        readonly id: string
        readonly nodes: number
        readonly nodes_ready: number
        readonly first_token: FirstToken | null
      }[]
    | null
}

async function interfaceVersion(gateway: GatewayClient): Promise<string | null> {
  try {
    const { body } = await gateway.get<{ readonly info?: { readonly version?: string } }>('/openapi.json', false)
    return body.info?.version ?? null
  } catch (error) {
    if (error instanceof CliFailure) return null
    throw error
  }
}

/** Of all nodes that have the model. */
const firstTokenOf = (id: string, nodes: readonly Node[]) =>
  lastFirstToken(
    nodes.flatMap(({ runtimes }) => runtimes.flatMap(({ models }) => models.filter(({ model }) => model === id))),
  )

async function poolOf(gateway: GatewayClient): Promise<Pick<Status, 'nodes' | 'in_flight' | 'models'>> {
  const [{ nodes }, { models }] = await Promise.all([
    gateway.admin<Static<typeof NodeList>>({ path: '/v1/admin/nodes?limit=1000' }),
    gateway.admin<Static<typeof AdminModelList>>({ path: '/v1/admin/models?limit=10000' }),
  ])
  const byState: Record<string, number> = {}
  for (const { state } of nodes) byState[state] = (byState[state] ?? 0) + 1
  return {
    nodes: byState,
    in_flight: nodes.reduce((sum, node) => sum + node.in_flight, 0),
    models: models
      .filter((model) => model.nodes > 0)
      .map(({ id, nodes: count, nodes_ready }) => ({
        id,
        nodes: count,
        nodes_ready,
        first_token: firstTokenOf(id, nodes),
      })),
  }
}

function statusText(terminal: Terminal, status: Status): string {
  const counts = Object.entries(status.nodes ?? {}).map(([state, count]) => `${count} ${state}`)
  const facts = fields(terminal, [
    ['Gateway', status.base_url],
    ['State', status.state],
    ['Interface', status.interface_version],
    ['Command line', status.command_line_version],
    [
      'Nodes',
      status.nodes === null ? 'only an admin token shows this' : counts.length === 0 ? 'none' : counts.join(', '),
    ],
    ['In flight', status.in_flight],
  ])
  if (status.models === null) return facts
  const rows = status.models.map(({ id, nodes, nodes_ready, first_token: first }) => [
    id,
    nodes,
    nodes_ready,
    firstTokenText(first, Date.now()),
  ])
  return `${facts}\n${table(terminal, ['MODEL', 'NODES', 'READY', 'FIRST TOKEN'], rows, 'There are no models.')}`
}

export const status: Verb = {
  name: 'status',
  about: 'Show the health of the gateway and what it can serve',
  actions: action({
    about:
      'Show health, version, nodes by state, models and requests in flight. The exit code is 0 only if the gateway is ready',
    options: {},
    run: async ({ json }, session) => {
      const gateway = session.gateway()
      const { baseUrl, adminToken } = session.connection()
      const { body: health } = await gateway.get<Health>('/readyz', false)
      const ready = health.status === 'ready'
      const pool =
        adminToken === null || !ready ? { nodes: null, in_flight: null, models: null } : await poolOf(gateway)
      const found: Status = {
        base_url: baseUrl,
        state: health.status,
        interface_version: await interfaceVersion(gateway),
        command_line_version: version,
        ...pool,
      }
      session.show(json, found, (shown) => statusText(session.terminal, shown))
      return ready ? exitCodes.ok : exitCodes.failed
    },
  }),
}
