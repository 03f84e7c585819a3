import { afterAll, afterEach, expect, test } from 'bun:test'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  childVariable,
  fileHolder,
  lsofTable,
  type ProcessTable,
  portHolder,
  portInUse,
  procTable,
} from '../../src/host/port-holder.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'

const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-holder-')))
const running: Bun.Subprocess[] = []
afterAll(() => rmSync(scratch, { recursive: true }))
// One that is left has a port of IPv4, which another one may get of IPv6.
afterEach(async () => {
  for (const program of running.splice(0)) {
    program.kill()
    await program.exited
  }
})

interface Circumstances {
  readonly hostname?: string
  readonly env?: Readonly<Record<string, string>>
}

const ofSupervisor = { [childVariable]: '0' }
/** A program that listens, with a file open, in itself or in a program that it starts. */
async function listener(
  lock: string | null,
  isBelow: boolean,
  { hostname = '127.0.0.1', env = ofSupervisor }: Circumstances = {},
) {
  const open = lock === null ? '' : `require('node:fs').openSync(${JSON.stringify(lock)}, 'a');`
  const listen = `const s = Bun.listen({ hostname: '${hostname}', port: 0, socket: { data() {} } }); console.log('port ' + s.port);`
  // It ends with the program that started it, whatever ends that.
  const below = `${listen} process.stdin.on('end', () => process.exit()).resume()`
  const inner = `Bun.spawn([process.execPath, '-e', ${JSON.stringify(below)}], { stdio: ['pipe', 'inherit', 'inherit'], env: { ...process.env, ...${JSON.stringify(env)} } });`
  const program = Bun.spawn(
    [process.execPath, '-e', `${open}${isBelow ? inner : listen} setInterval(() => {}, 1000)`],
    {
      stdout: 'pipe',
    },
  )
  running.push(program)
  return { pid: program.pid, port: Number((await firstMatch(program.stdout, /port (\d+)/))[1]) }
}

const tables: readonly (readonly [string, ProcessTable])[] = [
  ...(process.platform === 'linux' ? [['/proc', procTable] as const] : []),
  ...(Bun.which('lsof') === null ? [] : [['lsof', lsofTable] as const]),
]

test('§25: this system has a way to see who holds a port', () => {
  expect(tables.length).toBeGreaterThan(0)
})

test.each(tables)(
  '§25: who holds a port, by %s: any program, a gateway by its folder, its supervisor, and no other parent',
  async (_, table) => {
    const stranger = await listener(null, false)
    expect(portHolder(stranger.port, table)).toEqual({
      pid: stranger.pid,
      name: expect.stringContaining('bun'),
      owner: null,
      folder: null,
    })
    const onIpv6 = await listener(join(scratch, 'gateway.lock'), false, { hostname: '::1' })
    expect(portHolder(onIpv6.port, table)).toMatchObject({ pid: onIpv6.pid, owner: 'gateway', folder: scratch })
    const supervisor = await listener(join(scratch, 'gateway.lock'), true)
    expect(portHolder(supervisor.port, table)).toMatchObject({ pid: supervisor.pid, owner: 'gateway', folder: scratch })
    const server = await listener(join(scratch, 'gateway.lock'), true, { env: {} })
    expect(portHolder(server.port, table)).toMatchObject({ owner: null, folder: null })
    const folder = mkdtempSync(join(scratch, 'agent-'))
    const agent = await listener(join(folder, 'agent.lock'), false)
    expect(portHolder(agent.port, table)).toMatchObject({ pid: agent.pid, owner: 'agent', folder })
    expect(fileHolder(join(folder, 'agent.lock'), table)).toBe(agent.pid)
    expect(portHolder(await freePort(), table)).toBeNull()
  },
)

test('§25: a port that is taken is said with the process and its folder, or without where it cannot be seen', async () => {
  const gateway = await listener(join(scratch, 'gateway.lock'), false)
  const said = portInUse(gateway.port)
  expect(said).toBe(
    `Port ${gateway.port} is in use by another gateway: process ${gateway.pid}, data folder ${scratch}. Stop it`,
  )
  const stranger = await listener(null, false)
  expect(portInUse(stranger.port)).toMatch(
    new RegExp(`^Port ${stranger.port} is in use by process ${stranger.pid} \\(bun.*\\)\\. Stop it$`),
  )
  const own = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  expect(portInUse(own.port)).toBe(`Port ${own.port} is in use. Stop what listens there`)
  own.stop(true)
})
