import type { Discovered } from '../../../protocol/wire/nodes/discovery.ts'
import { action, type OptionSpecs } from '../../frame/action.ts'
import { UsageFault } from '../../frame/failure.ts'
import { table } from '../../frame/table.ts'
import { printable, type Terminal } from '../../frame/terminal.ts'

const modelsNamedMax = 3
const portMax = 65_535
/** A little more than the longest look of a gateway, ms. */
const lookWithinMs = 200_000

const options = {
  port: { kind: 'texts', value: 'PORT', about: 'A port to ask in place of the usual ones. Can be repeated' },
  public: { kind: 'flag', about: 'Ask addresses of the internet, too' },
} as const satisfies OptionSpecs

function portOf(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= portMax) return Number(text)
  throw new UsageFault(`--port must be a number from 1 to ${portMax}; you sent ${printable(text).slice(0, 32)}`)
}

function modelWords(models: readonly string[]): string {
  const named = models.slice(0, modelsNamedMax).map(printable).join(', ')
  return models.length > modelsNamedMax ? `${named} +${models.length - modelsNamedMax}` : named
}

function found(terminal: Terminal, { asked, servers }: Discovered): string {
  const rows = servers.map(({ url, runtime_kind: kind, models, node_id: node }) => [
    url,
    kind,
    modelWords(models),
    node,
  ])
  const fresh = servers.filter(({ node_id: node }) => node === null)
  const offer = fresh.map(({ url }) => `  ./penstock nodes add ${url}\n`).join('')
  const none =
    asked === 0
      ? 'No model server announces itself on the gateway’s network. To ask each address, name a range such as 192.168.1.0/24'
      : `No model server answered (${asked} addresses and ports were asked). A server must listen on 0.0.0.0, not only on 127.0.0.1.`
  return `${table(terminal, ['URL', 'KIND', 'MODELS', 'NODE'], rows, none)}${offer === '' ? '' : `\nTo use one:\n${offer}`}`
}

export const discover = action({
  about: 'Look for model servers on the gateway’s network: those that announce themselves, or each address of a range',
  operands: [{ name: 'RANGE', about: 'A network of at most 1,024 addresses, such as 192.168.1.0/24', optional: true }],
  options,
  run: async ({ operands: [range], options: given, json }, session) => {
    const ports = given.port.map(portOf)
    if (range === undefined && (ports.length > 0 || given.public)) {
      throw new UsageFault('--port and --public need a RANGE such as 192.168.1.0/24')
    }
    const body = {
      ...(range === undefined ? {} : { range }),
      ...(ports.length === 0 ? {} : { ports }),
      ...(given.public ? { public: true } : {}),
    }
    const call = { method: 'POST', path: '/v1/admin/nodes/discover', body, withinMs: lookWithinMs } as const
    const answer = await session.gateway().admin<Discovered>(call)
    session.show(json, answer, (shown) => found(session.terminal, shown))
    return undefined
  },
})
