import { packetTarget } from '../../../host/magic-packet.ts'
import type { NodeOptions } from '../../../node/node-options.ts'
import { lowerMac, macOf } from '../../../protocol/wire/nodes/power.ts'
import { minuteMs } from '../../../time.ts'
import type { OptionSpecs, OptionValues } from '../../frame/action.ts'
import { UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'

/** What the owner lets the agent do with the computer; nothing of it by default. */
export const powerOptions = {
  'suspend-command': {
    kind: 'text',
    value: 'COMMAND',
    about:
      'A command that suspends this computer, e.g. "systemctl suspend". The gateway can then send it to sleep, and requests wake it',
  },
  'suspend-after': {
    kind: 'number',
    value: 'MINUTES',
    min: 1,
    max: 10_080,
    about: 'Run that command after so long without work, never while anything runs or a pinned model is in memory',
  },
  'wake-mac': {
    kind: 'texts',
    value: 'ADDRESS',
    about: 'The hardware address where magic packets wake this computer (default: those of its network cards)',
  },
  'secure-on': {
    kind: 'text',
    value: 'VARIABLE',
    about: 'The environment variable with the SecureOn password of that card, six bytes like an address',
  },
  'wakes-others': {
    kind: 'flag',
    about: 'Send magic packets for sleeping computers of the same owner in this network, when the gateway asks',
  },
  'wake-address': {
    kind: 'texts',
    value: 'IPV4[:PORT]',
    about: 'Where those packets go (default: everybody in the networks of this computer, port 9)',
  },
  yield: {
    kind: 'texts',
    value: 'PROBE[=VALUE]',
    about:
      'Take no work from the gateway while this holds: battery, temperature=85, hours=18:00-08:00 (outside of them), gpu=20, fullscreen. Can be repeated',
  },
  'yield-unload': { kind: 'flag', about: 'Then also let models go from memory, where their servers can be told' },
} as const satisfies OptionSpecs

type PowerInput = OptionValues<typeof powerOptions>

const sixBytes = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/

/** On the command line every user of the computer could read it. */
function password(variable: string, env: Session['env']): string {
  const secret = lowerMac(env[variable] ?? '')
  if (!sixBytes.test(secret))
    throw new UsageFault(`--secure-on: ${variable} is not set, or is not six bytes like 01:02:03:04:05:06`)
  return secret
}

function macsGiven(texts: readonly string[]): readonly string[] {
  return texts.map((text) => {
    const mac = macOf(text)
    if (mac === null) throw new UsageFault(`--wake-mac: ${text} is not the hardware address of one network card`)
    return mac
  })
}

/** Throws `UsageFault` for what fits no computer. Probes are checked when the agent starts. */
export function powerGiven(given: PowerInput, env: Session['env']): NonNullable<NodeOptions['power']> {
  const { 'suspend-command': command, 'suspend-after': minutes, 'wake-mac': macs, 'wake-address': targets } = given
  if (minutes !== undefined && command === undefined) {
    throw new UsageFault(
      '--suspend-after needs --suspend-command: the agent does not guess how this computer is suspended',
    )
  }
  const wrong = targets.find((target) => packetTarget(target) === null)
  if (wrong !== undefined) throw new UsageFault(`--wake-address: ${wrong} is no IPv4 address like 192.168.1.255:9`)
  return {
    ...(command === undefined ? {} : { suspendCommand: command }),
    ...(minutes === undefined ? {} : { suspendAfterMs: minutes * minuteMs }),
    ...(macs.length === 0 ? {} : { macs: macsGiven(macs) }),
    ...(given['secure-on'] === undefined ? {} : { secureOn: password(given['secure-on'], env) }),
    ...(targets.length === 0 ? {} : { packetTargets: targets }),
    wakesOthers: given['wakes-others'],
    yields: given.yield,
    yieldUnloads: given['yield-unload'],
  }
}
