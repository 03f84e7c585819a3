import { isLoopback } from '../../../host/loopback.ts'
import { portInUse } from '../../../host/port-holder.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import { listenAddress } from '../../frame/listen-address.ts'
import { printable } from '../../frame/terminal.ts'
import { untilSignal } from '../../frame/until-signal.ts'
import { machineJudge } from '../../seal/machine-judge.ts'
import { PinBook } from '../../seal/pin-book.ts'
import { type SealDoorOptions, startSealDoor } from '../../seal/seal-door.ts'

const fingerprintPattern = /^SHA256:[A-Za-z0-9_-]{43}$/
const listenDefault = '127.0.0.1:7272'

function opened(options: SealDoorOptions) {
  try {
    return startSealDoor(options)
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EADDRINUSE') throw error
    throw new CliFailure(`${portInUse(options.port)}, or choose another port with --listen.`)
  }
}

/** The local door of sealed inference (§38). */
export const seal: Verb = {
  name: 'seal',
  about: 'Open a door on this computer that encrypts requests for your own nodes',
  actions: action({
    about:
      'Open a door on this computer for OpenAI, Anthropic and Ollama clients. It encrypts each request for one of your nodes, so that the gateway relays what it cannot read',
    options: {
      listen: { kind: 'text', value: 'HOST:PORT', about: `Where programs reach it (default ${listenDefault})` },
      pin: {
        kind: 'texts',
        value: 'FINGERPRINT',
        about:
          'A node that is trusted, as it prints itself. Without one the first use of each node is shown and remembered',
      },
      measurements: {
        kind: 'text',
        value: 'FILE',
        about: 'Use only nodes on confidential computers that this policy allows: each must show what runs on it',
      },
      'gpu-check': {
        kind: 'text',
        value: 'PROGRAM',
        about: 'With --measurements: a program that checks what GPUs have signed, for the nonce that is its argument',
      },
      'no-padding': { kind: 'flag', about: 'Do not hide the exact lengths of requests and answers' },
    },
    run: async ({ options }, session) => {
      const { terminal } = session
      const { baseUrl, gatewayKey } = session.connection()
      if (gatewayKey === null) throw new CliFailure('Sealed requests need a gateway key.', ['export SVC_GATEWAY_KEY=…'])
      const named = options.pin
      if (named.some((pin) => !fingerprintPattern.test(pin))) {
        throw new UsageFault('--pin must be SHA256: and 43 characters, as `penstock node status` prints it')
      }
      const { hostname, port } = listenAddress(options.listen ?? listenDefault)
      if (!isLoopback(hostname)) {
        throw new UsageFault('--listen must be an address of this computer alone, such as 127.0.0.1:7272')
      }
      const { measurements, 'gpu-check': gpuCheck } = options
      if (gpuCheck !== undefined && measurements === undefined) {
        throw new UsageFault('--gpu-check needs --measurements FILE')
      }
      // Gateways and nodes choose some of its words.
      const tell = (line: string) => terminal.err(`${printable(line)}\n`)
      const attest = measurements === undefined ? null : await machineJudge({ measurements, gpuCheck }, tell)
      const pins = new PinBook({ env: session.env, named, tell })
      const padding = !options['no-padding']
      const door = opened({
        ...{ hostname, port, gateway: baseUrl, key: gatewayKey, pins, padding },
        ...(attest === null ? {} : { attest }),
      })
      terminal.out(`Sealed door  ${door.url}/v1 (OpenAI), ${door.url} (Anthropic, Ollama)\nGateway      ${baseUrl}\n`)
      await untilSignal()
      await door.stop()
      return undefined
    },
  }),
}
