import { afterAll, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createLog } from '../../../src/log.ts'
import type { ProbeWorld } from '../../../src/node/yielding/probe.ts'
import { lookOf, yieldProbes } from '../../../src/node/yielding/registry.ts'
import { hottest } from '../../../src/node/yielding/temperature.ts'
import { Yielding, yieldTimes } from '../../../src/node/yielding/yielding.ts'
import { stateWords } from '../../../src/protocol/wire/nodes/state-words.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'

const root = mkdtempSync(join(tmpdir(), 'penstock-yield-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let folders = 0
/** A kernel's folder with these files. */
function sysWith(files: Readonly<Record<string, string>>): string {
  const sys = join(root, `sys${folders++}`)
  mkdirSync(sys)
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(sys, path)), { recursive: true })
    writeFileSync(join(sys, path), `${text}\n`)
  }
  return sys
}
/** A program of this name that prints a text. */
function program(name: string, script: string): string {
  const bin = join(root, `bin${folders++}`)
  mkdirSync(bin)
  writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`)
  chmodSync(join(bin, name), 0o755)
  return bin
}
const world = (change: Partial<ProbeWorld> = {}): ProbeWorld => ({
  sysRoot: '/nowhere',
  env: { PATH: '/nowhere' },
  isBusy: () => false,
  now: () => Date.parse('2026-11-26T12:00:00Z'),
  timeZone: 'UTC',
  ...change,
})
const never = new AbortController().signal
function sees(text: string, change: Partial<ProbeWorld>, signal = never): Promise<boolean> {
  const look = lookOf(text, world(change))
  if (typeof look === 'string') throw new Error(look)
  return look.look(signal)
}

const supply = (name: string, files: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(files).map(([file, text]) => [`class/power_supply/${name}/${file}`, text]))

test('§39 battery: a laptop without its plug, and nothing else', async () => {
  const discharging = supply('BAT0', { type: 'Battery', status: 'Discharging' })
  const plug = (online: string) => supply('AC', { type: 'Mains', online })
  expect(await sees('battery', { sysRoot: sysWith({ ...discharging, ...plug('0') }) })).toBe(true)
  expect(await sees('battery', { sysRoot: sysWith({ ...discharging, ...plug('1') }) })).toBe(false)
  const charging = supply('BAT0', { type: 'Battery', status: 'Charging' })
  expect(await sees('battery', { sysRoot: sysWith(charging) })).toBe(false)
  const mouse = supply('hidpp_battery_0', { type: 'Battery', status: 'Discharging', scope: 'Device' })
  expect(await sees('battery', { sysRoot: sysWith(mouse) })).toBe(false)
  await expect(sees('battery', {})).rejects.toThrow()
})

test('§39 temperature: the hottest sensor, of zones and chips', async () => {
  const sysRoot = sysWith({
    'class/thermal/thermal_zone0/temp': '45000',
    'class/thermal/thermal_zone1/temp': '-273000',
    'class/hwmon/hwmon0/temp1_input': '91500',
    'class/hwmon/hwmon0/temp1_max': '200000',
    'class/hwmon/hwmon1/temp2_input': '999000',
  })
  expect(hottest(sysRoot)).toBe(91.5)
  expect(await sees('temperature=91', { sysRoot })).toBe(true)
  expect(await sees('temperature=92', { sysRoot })).toBe(false)
  expect(await sees('temperature', { sysRoot })).toBe(true)
  await expect(sees('temperature', {})).rejects.toThrow('no sensor')
})

test('§39 hours: outside of them, in the time zone of the computer', async () => {
  expect(await sees('hours=18:00-08:00', {})).toBe(true)
  expect(await sees('hours=18:00-08:00', { timeZone: 'Asia/Tokyo' })).toBe(false)
  expect(await sees('hours=11:00-13:00', {})).toBe(false)
})

test('§39 gpu: the load of another program, never that of a request of ours', async () => {
  const sysRoot = sysWith({ 'class/drm/card0/device/gpu_busy_percent': '64', 'class/drm/card0-HDMI-A-1/status': 'x' })
  let busy = false
  const look = lookOf('gpu', world({ sysRoot, isBusy: () => busy }))
  if (typeof look === 'string') throw new Error(look)
  busy = true
  expect(await look.look(never)).toBe(false)
  busy = false
  expect(await look.look(never)).toBe(true)
  busy = true
  // What was seen before goes on.
  expect(await look.look(never)).toBe(true)
  expect(await sees('gpu=70', { sysRoot })).toBe(false)
  const PATH = program('nvidia-smi', 'echo 3; echo 47')
  expect(await sees('gpu', { env: { PATH } })).toBe(true)
  expect(await sees('gpu=50', { env: { PATH } })).toBe(false)
  await expect(sees('gpu', {})).rejects.toThrow()
})

test('§39 fullscreen: what the window manager says of the window on top', async () => {
  const script = (state: string) =>
    `case "$*" in *_NET_ACTIVE_WINDOW*) echo '_NET_ACTIVE_WINDOW(WINDOW): window id # 0x3e00007';; *) echo '${state}';; esac`
  const full = program('xprop', script('_NET_WM_STATE(ATOM) = _NET_WM_STATE_FULLSCREEN, _NET_WM_STATE_FOCUSED'))
  const window = program('xprop', script('_NET_WM_STATE(ATOM) = _NET_WM_STATE_FOCUSED'))
  expect(await sees('fullscreen', { env: { PATH: full } })).toBe(true)
  expect(await sees('fullscreen', { env: { PATH: window } })).toBe(false)
  const empty = program('xprop', "echo '_NET_ACTIVE_WINDOW(WINDOW): window id # 0x0'")
  expect(await sees('fullscreen', { env: { PATH: empty } })).toBe(false)
})

/** For a tool that says nothing in a minute. */
const hangMs = 50

test('§39: a tool that hangs is given up', async () => {
  const PATH = `${program('nvidia-smi', 'exec sleep 60')}:/usr/bin:/bin`
  await expect(sees('gpu', { env: { PATH } }, AbortSignal.timeout(hangMs))).rejects.toThrow()
})

test('§39: the probes of this computer answer or say that they cannot tell', async () => {
  const here = { sysRoot: '/sys', env: process.env }
  for (const name of ['battery', 'temperature', 'gpu', 'fullscreen']) {
    const told = await sees(name, here, AbortSignal.timeout(yieldTimes.lookMs)).catch(() => 'cannot tell')
    expect([true, false, 'cannot tell']).toContain(told)
  }
})

test('§39: a probe that is none, a value that is wrong: a sentence for the owner', () => {
  const wrong = [
    '',
    'games',
    'battery=5',
    'temperature=hot',
    'temperature=500',
    'hours',
    'hours=7-9',
    'gpu=0',
    'gpu=100',
    'fullscreen=1',
  ]
  for (const text of wrong) expect(lookOf(text, world())).toBeString()
})

test('§39: each probe has its words in the console', () => {
  for (const { name } of yieldProbes) {
    expect(name).toMatch(/^[a-z][a-z-]{0,31}$/)
    expect(
      stateWords({ state: 'yielding', stateReasons: [name], wakeable: false, wakesInVain: 0, wakePausedUntilMs: 0 }),
    ).toMatch(/^(it|another|a) /)
  }
})

function yielding() {
  const clock = new VirtualClock()
  const lines: string[] = []
  const log = createLog('info', (text) => lines.push(text))
  const seen = { first: false as boolean | Error, second: false as boolean | Error }
  const changes: string[] = []
  const look = (name: 'first' | 'second') => ({
    name,
    look: async () => {
      const told = seen[name]
      if (told instanceof Error) throw told
      return told
    },
  })
  const leaving = new Yielding({
    looks: [look('first'), look('second')],
    changed: () => changes.push(leaving.reasons.join(' ')),
    log,
    clock,
  })
  const failures = () => {
    log.flush()
    return lines.join('').split('yield_probe_failed').length - 1
  }
  return { leaving, clock, seen, changes, failures }
}

test('§39: yields at once, and works for others again after a minute of quiet', async () => {
  const { leaving, clock, seen, changes } = yielding()
  await leaving.start()
  expect(leaving.reasons).toEqual([])
  seen.first = true
  await clock.pass(5_000)
  expect(leaving.reasons).toEqual(['first'])
  seen.first = false
  await clock.pass(30_000)
  seen.second = true
  await clock.pass(5_000)
  expect(leaving.reasons).toEqual(['second'])
  seen.second = false
  await clock.pass(55_000)
  expect(leaving.reasons).toEqual(['second'])
  await clock.pass(10_000)
  expect(leaving.reasons).toEqual([])
  expect(changes).toEqual(['first', 'second', ''])
  await leaving.stop()
})

test('§39: a probe that cannot tell does not speak for the owner, and is reported once', async () => {
  const { leaving, clock, seen, failures } = yielding()
  seen.first = new Error('no such tool')
  await leaving.start()
  await clock.pass(60_000)
  expect([leaving.reasons.length, failures()]).toEqual([0, 1])
  seen.first = false
  await clock.pass(5_000)
  seen.first = new Error('gone again')
  await clock.pass(5_000)
  expect(failures()).toBe(2)
  await leaving.stop()
})
