import { join } from 'node:path'
import { launch, root, saidBy, temporaryFolder, until } from './rig.ts'
import { type Admin, adminOf, freePort, ordinary, startGateway, type Target } from './targets.ts'

/** A whole gateway with one account. */
export interface BenchGateway {
  readonly url: string
  readonly pid: number
  readonly admin: Admin
  readonly customerId: string
}

/** `more`: settings. */
export async function benchGateway(more: Readonly<Record<string, string>> = {}): Promise<BenchGateway> {
  const folder = temporaryFolder()
  const data = join(folder, 'data')
  const env = { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', ...more }
  const { program, url } = await startGateway(data, join(folder, 'gateway.log'), null, env)
  const admin = adminOf(url, join(data, 'credentials.json'))
  const { customer_id } = await admin<{ readonly customer_id: string }>('POST', '/customers', { display_name: 'bench' })
  return { url, pid: program.pid, admin, customerId: customer_id }
}

export interface BenchNode {
  readonly nodeId: string
  /** Of its agent, where it has one. */
  readonly pids: readonly number[]
}

export async function runtimeNode({ admin, customerId }: BenchGateway, url: string): Promise<BenchNode> {
  const { node_id } = await admin<{ readonly node_id: string }>('POST', '/nodes', {
    customer_id: customerId,
    url,
    visibility: 'private',
    privacy_class: 'private',
    node_class: 'gpu',
  })
  return { nodeId: node_id, pids: [] }
}

/** The agent in a process of its own, as `./penstock node` runs it. */
export async function agentNode(
  { admin, customerId, url }: BenchGateway,
  runtime: string,
  direct: boolean,
): Promise<BenchNode> {
  const { enrollment_token } = await admin<{ readonly enrollment_token: string }>('POST', '/enrollment-tokens', {
    customer_id: customerId,
    name: 'bench',
    visibility: 'private',
    node_class: 'gpu',
    privacy_class: 'private',
    endpoint_url_allowed: direct,
  })
  const listen = `127.0.0.1:${freePort()}`
  const program = launch([
    ...[process.execPath, join(root, 'src', 'cli', 'main.ts'), 'node'],
    ...['--gateway', url, '--token', enrollment_token, '--data-dir', join(temporaryFolder(), 'node')],
    ...['--listen', listen, '--no-discover', '--runtime', runtime],
    ...(direct ? ['--endpoint-url', `http://${listen}`] : []),
  ])
  const [, nodeId = ''] = await saidBy(program, /This node is .*?(node_\w+)/)
  return { nodeId, pids: [program.pid] }
}

/** The gateway as a client sees it whose key reaches that node only. */
export async function targetOf(
  { admin, customerId, url, pid }: BenchGateway,
  { nodeId, pids }: BenchNode,
): Promise<Target> {
  const { gateway_key } = await admin<{ readonly gateway_key: string }>('POST', `/customers/${customerId}/keys`, {
    name: nodeId,
    node_scope: [nodeId],
  })
  await until('the node to be ready', async () => {
    const { state } = await admin<{ readonly state: string }>('GET', `/nodes/${nodeId}`)
    return state === 'ready'
  })
  const chat = `${url}/v1/api/chat/completions`
  return { ...ordinary, name: 'Penstock', url: chat, key: gateway_key, pid, sidePids: () => pids, stop: async () => {} }
}
