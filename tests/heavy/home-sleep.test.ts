import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { waitFor } from '../support/gateways/gateway.ts'
import { agent, Home, minuteMs, penstock, program, says, wordsOf } from '../support/gateways/home.ts'
import { type HomeNetwork, makeHomeNetwork } from '../support/gateways/home-network.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

const computers = ['gateway', 'attic', 'shed', 'ear', 'phone'] as const
type Computer = (typeof computers)[number]
const made = makeHomeNetwork(`pss${process.pid}`, computers)
const refusal = typeof made === 'string' ? made : ''

interface Shown {
  readonly node_id: string
  readonly name: string
  readonly state: string
  readonly state_says: string | null
  readonly wake_ms: number | null
}

describe.skipIf(refusal !== '')(`§39: a home whose computers sleep ${refusal && `(${refusal})`}`.trim(), () => {
  const net = made as HomeNetwork<Computer>
  let home: Home<Computer>
  /** Packets that came, by the card that they were for. */
  const heard: string[] = []
  /** Cards that wake for a packet. */
  const wakes = new Set<Computer>(['attic', 'shed'])
  const packetsFor = (computer: Computer) => heard.filter((mac) => mac === net.macOf(computer)).length

  async function nodes(): Promise<readonly Shown[]> {
    const { out } = await home.run('gateway', penstock('nodes', 'list', '--json'))
    return (JSON.parse(out) as { nodes: readonly Shown[] }).nodes
  }
  const shown = async (name: string) => (await nodes()).find((node) => node.name === name)
  const until = (name: string, state: string) =>
    waitFor(`${name} to be ${state}`, async () => (await shown(name))?.state === state, minuteMs)
  async function does(...words: readonly string[]): Promise<void> {
    const { code, err } = await home.run('gateway', penstock(...words))
    expect([code, err]).toEqual([0, ''])
  }
  const asks = (model: string, more: object = {}, key?: string) =>
    home.chat('phone', { model, messages: [{ role: 'user', content: 'hi' }], ...more }, key)
  const codeOf = ({ out }: { readonly out: string }) =>
    (JSON.parse(out) as { error?: { code: string; message: string } }).error
  /** Its owner sends it to sleep, and the cable is dead. */
  async function asleep(): Promise<void> {
    await does('nodes', 'sleep', 'shed')
    net.link('shed', 'down')
    await until('shed', 'asleep')
  }

  /** What a network card does while its computer sleeps. */
  async function listen(): Promise<void> {
    const ear = Bun.spawn([...net.on('ear', [process.execPath, program('packet-ear.ts')[1] ?? ''])], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    ears.push(ear)
    const lines = ear.stdout.pipeThrough(new TextDecoderStream())
    const started = Promise.withResolvers<void>()
    void (async () => {
      for await (const text of lines) {
        for (const line of text.split('\n').filter((each) => each !== '')) {
          if (line === 'listens') started.resolve()
          else heard.push(line)
          const woken = computers.find((computer) => wakes.has(computer) && net.macOf(computer) === line)
          if (woken !== undefined) wake(woken)
        }
      }
    })()
    await started.promise
  }
  const ears: Bun.Subprocess[] = []
  const pidFile = join(mkdtempSync(join(tmpdir(), 'penstock-still-')), 'pid')
  /** The agent that stands still with its computer. */
  let still: number | null = null
  function wake(computer: Computer): void {
    net.link(computer, 'up')
    if (computer !== 'attic' || still === null) return
    process.kill(still, 'SIGCONT')
    still = null
  }

  beforeAll(async () => {
    home = new Home(net, computers)
    await listen()
    await home.beginGateway({ SVC_WAKE_WAIT_MS: '20000', SVC_HEADER_COMMIT_MS: '50', SVC_POLL_INTERVAL_MS: '500' })
    const served = (model: string, listens: string) =>
      penstock('fake-node', '--model', model, '--listen', listens, '--speaks', 'vllm', '--json')
    await home.begin('shed', served('of-shed', '0.0.0.0:8000'), /"url"/)
    await home.begin('attic', served('of-attic', '127.0.0.1:8000'), /"url"/)
    await does('nodes', 'add', `http://${net.addressOf('shed')}:8000`, '--name', 'shed')
    await does('nodes', 'set', 'shed', '--mac', net.macOf('shed'))
    await until('shed', 'ready')
  }, 2 * minuteMs)
  afterAll(async () => {
    if (still !== null) process.kill(still, 'SIGCONT')
    for (const ear of ears) ear.kill()
    rmSync(dirname(pidFile), { recursive: true, force: true })
    await home?.stop()
    if (typeof made !== 'string') made.remove()
  }, minuteMs)

  test('a request wakes a computer by a magic packet to everybody, is answered, and what that took is learnt', async () => {
    await asleep()
    expect(packetsFor('shed')).toBe(0)
    const { out } = await asks('of-shed')
    expect(out).toContain('"choices"')
    expect(packetsFor('shed')).toBeGreaterThan(0)
    await until('shed', 'ready')
    expect((await shown('shed'))?.wake_ms).toBeGreaterThan(0)
  })

  test('a stream says by name that a computer is being woken, before its answer', async () => {
    await asleep()
    const { out } = await asks('of-shed', { stream: true })
    expect(out).toMatch(/^: svc waking shed[\s\S]*"choices"[\s\S]*\[DONE\]/)
    await until('shed', 'ready')
  })

  test('outside of its hours, and by a key that may not wake, a computer sleeps on: no packet goes out', async () => {
    await asleep()
    const before = packetsFor('shed')
    // An hour that is over, or has not begun, whatever the time is.
    const hour = (new Date().getUTCHours() + 12) % 24
    const two = (number: number) => String(number % 24).padStart(2, '0')
    await does('nodes', 'set', 'shed', '--wake-hours', `${two(hour)}:00-${two(hour + 1)}:00 UTC`)
    const late = codeOf(await asks('of-shed'))
    expect([late?.code, late?.message]).toEqual(['node_asleep', expect.stringContaining('only within')])
    await does('nodes', 'set', 'shed', '--wake-hours', 'always')
    const made = await home.run('gateway', penstock('keys', 'create', 'quiet', '--allow-wake', 'no', '--json'))
    const { gateway_key: key } = JSON.parse(made.out) as { gateway_key: string }
    expect(codeOf(await asks('of-shed', {}, key))?.code).toBe('node_asleep')
    expect(packetsFor('shed')).toBe(before)
    expect((await asks('of-shed')).out).toContain('"choices"')
    await until('shed', 'ready')
  })

  test('an agent suspends its computer by the command of its owner, a request wakes it, and it answers by its tunnel', async () => {
    // Its programs stand still with it, as those of a computer that sleeps.
    const line = `echo $PPID > ${pidFile}; ip link set lan down; kill -STOP $PPID`
    const joins = ['--gateway', home.gatewayUrl, '--insecure', '--no-discover']
    const serves = ['--runtime', 'http://127.0.0.1:8000', '--suspend-command', line]
    const person = home.sit('attic', agent(...joins, ...serves))
    const words = await wordsOf(person)
    await does('nodes', 'join', ...words.split(' '), '--name', 'attic')
    person.type('y\r')
    await says(person, /This node is node_\w+/)
    await until('attic', 'ready')
    await does('nodes', 'sleep', 'attic')
    await until('attic', 'asleep')
    await waitFor('the link to go', () => !net.isUp('attic'), minuteMs)
    still = Number(readFileSync(pidFile, 'utf8'))
    // Less would be no sleep to its clock.
    const sleeps = stopwatch()
    await waitFor('a while of sleep', () => sleeps() > 3_000)
    expect((await asks('of-attic')).out).toContain('"choices"')
    expect(packetsFor('attic')).toBeGreaterThan(0)
    await until('attic', 'ready')
    expect((await shown('attic'))?.wake_ms).toBeGreaterThan(0)
    person.type('\u0003')
    expect(await person.exited).toBe(0)
  })

  test('a computer that does not wake: the request ends with the reason, and the next one at once', async () => {
    await asleep()
    wakes.delete('shed')
    const before = packetsFor('shed')
    const first = codeOf(await asks('of-shed'))
    expect([first?.code, first?.message]).toEqual([
      'node_asleep',
      expect.stringContaining('shed was sent magic packets for 20 s and did not wake'),
    ])
    // Each two seconds, for twenty.
    const packets = packetsFor('shed')
    expect(packets - before).toBeGreaterThanOrEqual(5)
    expect(codeOf(await asks('of-shed'))?.code).toBe('node_asleep')
    expect(packetsFor('shed')).toBe(packets)
    expect((await shown('shed'))?.state_says).toContain('did not wake it once')
  })
})

test('this machine makes network namespaces, or says here why not', () => {
  expect(typeof made === 'string' ? made : 'made').not.toBe('')
})
