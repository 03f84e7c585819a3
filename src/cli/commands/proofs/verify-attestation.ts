import { type ExpectedEvidence, isAttestationNonce } from '../../../protocol/attestation/evidence.ts'
import { textOf } from '../../../protocol/verify/given.ts'
import { action, type OptionValues } from '../../frame/action.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import { fields } from '../../frame/table.ts'
import { machineJudgeOptions } from '../../seal/machine-judge.ts'
import { fingerprintOf, type Shown, shownIn, verdictOn } from './listed-evidence.ts'
import { readFile, verdictLines } from './verdict-text.ts'

const options = {
  measurements: {
    kind: 'text',
    value: 'FILE',
    about: 'Your policy: which images may run, and which firmware is new enough',
  },
  pin: { kind: 'text', value: 'FINGERPRINT', about: 'The node that it must be, as it prints itself' },
  nonce: { kind: 'text', value: 'HEX', about: 'The random number that you sent with your question, 64 digits' },
  at: { kind: 'text', value: 'TIME', about: 'Judge as of this moment, such as 2026-11-20T16:00:00Z (default now)' },
  'gpu-check': {
    kind: 'text',
    value: 'PROGRAM',
    about: 'A program that checks what GPUs have signed, for the nonce that is its argument',
  },
} as const

function timeOf(text: string | undefined): number {
  const ms = text === undefined ? Date.now() : Date.parse(text)
  if (Number.isNaN(ms)) throw new UsageFault('--at must be a time such as 2026-11-20T16:00:00Z')
  return ms
}

function expectedOf({ pin, nonce }: OptionValues<typeof options>): ExpectedEvidence {
  if (pin !== undefined && !/^SHA256:[A-Za-z0-9_-]{43}$/.test(pin)) {
    throw new UsageFault('--pin must be SHA256: and 43 characters, as the node prints it')
  }
  if (nonce !== undefined && !isAttestationNonce(nonce)) throw new UsageFault('--nonce must be 64 hexadecimal digits')
  return {
    fingerprint: textOf(pin),
    keyConfig: null,
    nonce: nonce === undefined ? null : Uint8Array.fromHex(nonce),
  }
}

/** Those to look at: of a list with `--pin` the one that it names. */
function asked(all: readonly Shown[], fingerprint: string | null): readonly Shown[] {
  const unverifiable = (detail: string) => new CliFailure(detail, [], exitCodes.unverifiable)
  if (all.length === 0) throw unverifiable('This is not the evidence of a computer.')
  const named = all.filter(({ node }) => fingerprint === null || node === null || fingerprintOf(node) === fingerprint)
  if (named.length === 0) throw unverifiable(`No node of this list has the fingerprint ${fingerprint}.`)
  return named
}

export const verifyAttestation = action({
  about: 'Check what a confidential computer shows of itself: who signed it, what runs there, and for which key',
  operands: [
    {
      name: 'FILE',
      about:
        'An answer of GET /v1/sealed/nodes with a nonce, or one `attestation` of it. A dash (-) reads standard input.',
    },
  ],
  options,
  run: async ({ operands, options: given, json }, session) => {
    const { measurements, 'gpu-check': gpuCheck } = given
    if (measurements === undefined) throw new UsageFault('Say what may run there: --measurements FILE')
    const nowMs = timeOf(given.at)
    const expected = expectedOf(given)
    const judging = { ...(await machineJudgeOptions({ measurements, gpuCheck })), now: () => nowMs }
    const all = asked(shownIn(await readFile(session, operands[0] ?? '')), expected.fingerprint)
    // What checks certificates is large, and only those who ask for it load it.
    const { judgeEvidence } = await import('../../../client/attestation/judge.ts')
    const verdicts = await Promise.all(
      all.map(async (one) => verdictOn(one, await judgeEvidence(one.evidence, expected, judging))),
    )
    const valid = verdicts.every((one) => one.valid)
    const shown = verdicts.map(({ checkpoint: _, ...rest }) => rest)
    session.show(json, { valid, verdicts: shown }, () => fields(session.terminal, verdicts.flatMap(verdictLines)))
    return valid ? undefined : exitCodes.failed
  },
})
