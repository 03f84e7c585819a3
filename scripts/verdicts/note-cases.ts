import { checkpointText } from '../../src/protocol/log/checkpoint.ts'
import { type Note, noteText, parseNote, signatureLine } from '../../src/protocol/log/note.ts'
import { impostor, log, origin, seenAt, sizes, stranger, witnesses } from './bases.ts'
import { type Bases, type Case, drop, type Edit, type Row, rowsOf, set } from './case.ts'
import { proofEdit } from './proof-cases.ts'

export const noteOf = (made: Bases): Note => {
  const note = parseNote(made.texts.checkpoint ?? '')
  if (note === null) throw new Error('the base is no note')
  return note
}
const whole = (by: string): readonly Edit[] => [{ at: ['note'], set: by }]

/** A checkpoint in a file, so that its text can be anything. */
export function noteCases(made: Bases): readonly Case[] {
  const note = noteOf(made)
  const [own, ...cosigned] = note.signatures
  if (own === undefined) throw new Error('the base is not signed')
  const body = (of: (text: string) => string) => whole(noteText({ ...note, text: of(note.text) }))
  const lines = (signatures: Note['signatures']) => whole(noteText({ ...note, signatures }))
  const plain = noteText(note)
  const rewritten = checkpointText({ origin, size: sizes.now, root: new Uint8Array(32) })
  const late = witnesses[0]?.cosign(note.text, 8_640_000_000_001)
  const rows: readonly Row[] = [
    ['as it is', whole(plain), true],
    ['another name', body((all) => all.replace('mutations', 'other')), false],
    ['one entry more', body((all) => all.replace('\n7\n', '\n8\n')), false],
    ['a size with a zero before it', body((all) => all.replace('\n7\n', '\n07\n')), false],
    ['a size that is none', body((all) => all.replace('\n7\n', '\n7.0\n')), false],
    ['another root', whole(noteText({ text: rewritten, signatures: note.signatures })), false],
    [
      'a further line',
      whole(noteText({ text: `${note.text}more\n`, signatures: [log.sign(`${note.text}more\n`)] })),
      false,
    ],
    ['signed by an impostor', lines([impostor.sign(note.text)]), false],
    ['the impostor beside the log', lines([own, impostor.sign(note.text), ...cosigned]), true],
    ['a stranger beside the log', lines([stranger.sign(note.text), own, ...cosigned]), true],
    ['a stranger alone', lines([stranger.sign(note.text)]), false],
    ['signed twice', lines([own, own, ...cosigned]), true],
    [
      'once well and once wrong',
      lines([own, { ...own, bytes: own.bytes.map((byte, at) => (at === 9 ? byte ^ 1 : byte)) }]),
      false,
    ],
    ['witnesses alone', lines(cosigned), false],
    ['no line', whole(`${note.text}\n`), false],
    ['no empty line', whole(note.text + signatureLine(own)), false],
    ['no last line feed', whole(plain.slice(0, -1)), false],
    ['two line feeds at the end', whole(`${plain}\n`), false],
    ['a hyphen in place of the dash', whole(plain.replaceAll('\u2014', '-')), false],
    ['a blank too many', whole(plain.replaceAll('\u2014 ', '\u2014  ')), false],
    ['a line that is no signature', whole(`${plain}hello\n`), false],
    ['100 lines', lines([own, ...Array.from({ length: 99 }, () => stranger.sign(note.text))]), true],
    ['101 lines', lines([own, ...Array.from({ length: 100 }, () => stranger.sign(note.text))]), false],
    ['line ends of another system', whole(plain.replaceAll('\n', '\r\n')), false],
    ['no note', drop('note'), false],
    ['a note in a list', set(['note'], [plain]), false],
    ['a note from a cosigner’s key of the log', lines([log.cosign(note.text, seenAt)]), false],
  ]
  const counted: readonly Row[] = [
    ['three witnesses of three', lines(note.signatures), true, 'three'],
    ['two witnesses of three', lines([own, ...cosigned.slice(1)]), false, 'three'],
    ['three witnesses of four', lines(note.signatures), false, 'four'],
    ['one witness three times', lines([own, ...[1, 2, 3].map(() => cosigned[0] ?? own)]), false, 'three'],
    [
      'a cosignature of another time',
      lines([own, ...cosigned.slice(1), ...(late === undefined ? [] : [late])]),
      false,
      'three',
    ],
    [
      'a wrong cosignature',
      lines([
        own,
        ...cosigned.map((one) => ({ ...one, bytes: one.bytes.map((byte, at) => (at === 7 ? byte ^ 1 : byte)) })),
      ]),
      false,
      'three',
    ],
    [
      'a short cosignature',
      lines([own, ...cosigned.map((one) => ({ ...one, bytes: one.bytes.subarray(0, 8) }))]),
      false,
      'three',
    ],
  ]
  return [...rowsOf('note', rows), ...rowsOf('note', counted)].map((one) => ({ ...one, base: 'noted' }))
}

export function policyCases(made: Bases): readonly Case[] {
  const note = noteOf(made)
  const signedBy = (...at: readonly number[]) =>
    whole(noteText({ ...note, signatures: [0, ...at].flatMap((one) => note.signatures[one] ?? []) }))
  const rows: readonly Row[] = [
    ['all three', signedBy(1, 2, 3), true, 'policy'],
    ['the first two', signedBy(1, 2), true, 'policy'],
    ['the last two', signedBy(3, 2), true, 'policy'],
    ['the first alone', signedBy(1), false, 'policy'],
    ['the second alone', signedBy(2), false, 'policy'],
    ['the second twice', signedBy(2, 2), false, 'policy'],
    ['nobody', signedBy(), false, 'policy'],
    ['two where all are asked for', signedBy(1, 3), false, 'policy_all'],
    ['all where all are asked for', signedBy(1, 2, 3), true, 'policy_all'],
    ['nobody where nobody is asked for', signedBy(), true, 'policy_none'],
    ['the one that is asked for', signedBy(2), true, 'policy_one'],
    ['the other two', signedBy(1, 3), false, 'policy_one'],
    ['one of each group', signedBy(1, 3), true, 'policy_nested'],
    ['two of one group', signedBy(1, 2), false, 'policy_nested'],
    ['a log that the policy does not name', signedBy(1, 2, 3), false, 'policy_other_log'],
    ['a policy without logs, and a remembered key', signedBy(1, 2, 3), true, 'policy_without_log'],
    ['a policy of the later name', signedBy(1, 2, 3), false, 'policy_later'],
  ]
  return [
    ...rowsOf('policy', rows).map((one) => ({ ...one, base: 'noted' })),
    ...rowsOf('gateway', [
      ['under a policy', [], true, 'policy'],
      ['under a policy of another log', [], false, 'policy_other_log'],
      [
        'one witness taken out',
        proofEdit(made, (proof) => `${proof.split('\n').slice(0, -2).join('\n')}\n`),
        true,
        'policy',
      ],
      [
        'two witnesses taken out',
        proofEdit(made, (proof) => `${proof.split('\n').slice(0, -3).join('\n')}\n`),
        false,
        'policy',
      ],
    ]),
    ...rowsOf('node', [['under a policy', [], true, 'policy']]),
    ...rowsOf('forked', [
      ['under a policy of its name', [], true, 'policy_later'],
      ['under a policy of the earlier name', [], false, 'policy'],
    ]),
    ...rowsOf('checkpoint', [
      ['as the log shows it', [], true, 'policy'],
      ['with blanks around it', [{ replace: origin, by: `  \n${origin}` }], true],
      ['after a word', [{ replace: origin, by: `x ${origin}` }], false],
    ]),
  ]
}
