import { dependencies } from '../../../../package.json'
import type { Finding } from '../../../offline/doctor.ts'
import type { NodeList } from '../../../protocol/wire/admin/admin.ts'
import type { Health } from '../../../protocol/wire/admin/report.ts'
import { troubleOf } from '../../../protocol/wire/nodes/trouble.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes } from '../../frame/failure.ts'
import { GatewayClient } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { printable, type Terminal } from '../../frame/terminal.ts'

/** Nodes whose trouble is told; the rest is counted. */
const warnedNodesMax = 10

const says = (state: Finding['state'], text: string): Finding => ({ check: 'gateway', state, says: text })

async function nodesOf(gateway: GatewayClient, baseUrl: string): Promise<Finding> {
  const { nodes } = await gateway.admin<NodeList>({ path: '/v1/admin/nodes?limit=1000' })
  const used = nodes.filter(({ state, admin_state: wish }) => state !== 'revoked' && wish === 'active')
  const ill = used.flatMap((node) => {
    const trouble = troubleOf(node)
    return trouble === null ? [] : [`${node.name}: ${trouble}`]
  })
  const more = ill.length > warnedNodesMax ? [`${ill.length - warnedNodesMax} more do not answer.`] : []
  const head = `The gateway at ${baseUrl} is ready, and ${used.length - ill.length} of ${used.length} nodes answer.`
  return says(ill.length === 0 ? 'good' : 'note', [head, ...ill.slice(0, warnedNodesMax), ...more].join(' '))
}

/** The gateway that the other commands would talk to: it may run elsewhere, so its absence is no fault of this computer. */
async function gatewayFinding(session: Session): Promise<Finding> {
  try {
    const { baseUrl, adminToken } = session.connection()
    const gateway = session.gateway()
    const { body } = await gateway.get<Health>('/readyz', false)
    if (body.status !== 'ready') return says('bad', `The gateway at ${baseUrl} is not ready: ${body.status}.`)
    if (adminToken !== null) return await nodesOf(gateway, baseUrl)
    return says('note', `The gateway at ${baseUrl} is ready. With an admin token its nodes are looked at, too.`)
  } catch (error) {
    if (error instanceof CliFailure) return says('note', [error.message, ...error.notes].map(sentence).join(' '))
    throw error
  }
}

const sentence = (text: string) => (/[.?!]$/.test(text) ? text : `${text}.`)

/** A caller without credentials. */
const anonymous = {
  adminToken: null,
  gatewayKey: null,
  approverToken: null,
  customerId: null,
  customerToken: null,
  lookedAt: [],
}

/** null: the credentials do not say it, and why not is said with the gateway. */
function baseUrlOf(session: Session): string | null {
  try {
    return session.connection().baseUrl
  } catch (error) {
    if (error instanceof CliFailure) return null
    throw error
  }
}

async function isGateway(url: string): Promise<boolean> {
  const client = new GatewayClient({ ...anonymous, baseUrl: url })
  return client.get<Partial<Health>>('/healthz', false).then(
    ({ body }) => body.status === 'ok',
    () => false,
  )
}

const marks = { good: ['green', 'good'], note: ['yellow', 'note'], bad: ['red', 'bad '] } as const

function findingsText({ style }: Pick<Terminal, 'style'>, findings: readonly Finding[]): string {
  const lines = findings.map((finding) => {
    const [colour, word] = marks[finding.state]
    return `${style(colour, word)}  ${printable(finding.says)}\n`
  })
  const faults = findings.filter(({ state }) => state === 'bad').length
  const end =
    faults === 0
      ? 'Nothing here keeps a gateway from starting.'
      : `${faults} ${faults === 1 ? 'thing keeps' : 'things keep'} a gateway from working here.`
  // What stands first is needed by what comes after it.
  const first = findings.find(({ state }) => state === 'bad') ?? findings.find(({ state }) => state === 'note')
  const next = first === undefined ? '' : `Do this first: ${printable(first.says)}\n`
  return `${lines.join('')}\n${end}\n${next}`
}

export const doctor: Verb = {
  name: 'doctor',
  about: 'Check all that a start and a node need, in sentences',
  actions: action({
    about:
      'Check all that a start and a node need on this computer, and the gateway. The exit code is 1 if a check fails',
    options: {},
    run: async ({ json }, session) => {
      const { examine } = await import('../../../offline/doctor.ts')
      const asked = {
        env: session.env,
        bunVersion: dependencies.bun,
        isGateway,
        baseUrl: baseUrlOf(session),
      }
      const findings = [...(await examine(asked)), await gatewayFinding(session)]
      session.show(json, { checks: findings }, ({ checks }) => findingsText(session.terminal, checks))
      return findings.some(({ state }) => state === 'bad') ? exitCodes.failed : exitCodes.ok
    },
  }),
}
