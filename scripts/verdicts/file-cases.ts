import { type Bases, type Case, drop, fileOf, rowsOf, set, text } from './case.ts'

export function payoutCases(made: Bases): readonly Case[] {
  const given = fileOf(made, 'payout')
  const payee = String(given.payee)
  const amount = String(given.amount_wei)
  return [
    ...rowsOf(
      'payout',
      [
        ['as it is', [], true],
        ['no root known', [], false, 'keys'],
        ['another amount', set(['amount_wei'], `${amount}0`), false],
        ['an amount with a zero before it', set(['amount_wei'], `0${amount}`), false],
        ['an amount in hexadecimal', set(['amount_wei'], `0x${BigInt(amount).toString(16)}`), false],
        ['an amount with a blank', set(['amount_wei'], ` ${amount}`), false],
        ['an amount as a number', set(['amount_wei'], Number(amount)), false],
        ['no amount', set(['amount_wei'], ''), false],
        ['a negative amount', set(['amount_wei'], `-${amount}`), false],
        ['an amount of 2^256', set(['amount_wei'], (2n ** 256n).toString()), false],
        ['another payee', set(['payee'], `0x${'12'.repeat(20)}`), false],
        ['the payee in capitals', set(['payee'], payee.toUpperCase().replace('0X', '0x')), true],
        ['a short payee', set(['payee'], payee.slice(0, -2)), false],
        ['another receipt', set(['payout_id'], `0x${'ab'.repeat(32)}`), false],
        ['by the name of its entry', set(['payout_id'], null), false],
        ['another leaf', set(['leaf'], `0x${'ab'.repeat(32)}`), false],
        ['a proof less', drop('proof', 0), false],
        ['a proof more', set(['proof'], [...(given.proof as []), `0x${'ab'.repeat(32)}`]), false],
        [
          'a proof in lists',
          set(
            ['proof'],
            (given.proof as string[]).map((one) => [one]),
          ),
          false,
        ],
        ['another root', set(['merkle_root'], `0x${'ab'.repeat(32)}`), false],
        [
          'the root in capitals',
          set(['merkle_root'], String(given.merkle_root).toUpperCase().replace('0X', '0x')),
          true,
        ],
        ['another name of the entry, which v2 does not hash', set(['entry_id'], 'pay_9'), true],
      ],
      'root',
    ),
    ...rowsOf(
      'payouts',
      [
        ['as they are', [], true],
        ['one changed', set(['proofs', 2, 'amount_wei'], '1'), false],
        ['none', set(['proofs'], []), false],
      ],
      'root',
    ),
  ]
}

export function jsonCases(): readonly Case[] {
  const tokens = '"completion_tokens":7'
  const deep = (levels: number) => `{"note":${'['.repeat(levels)}${']'.repeat(levels)},`
  return rowsOf('gateway', [
    ['a number as a fraction of nothing', text(tokens, '"completion_tokens":7.0'), true],
    ['a number with an exponent', text(tokens, '"completion_tokens":0.7e1'), true],
    ['a number as a text', text(tokens, '"completion_tokens":"7"'), false],
    ['a number with a zero before it', text(tokens, '"completion_tokens":07'), false],
    ['a number in hexadecimal', text(tokens, '"completion_tokens":0x7'), false],
    ['a key twice, the last one true', text(tokens, `"completion_tokens":9,${tokens}`), true],
    ['a key twice, the last one false', text(tokens, `${tokens},"completion_tokens":9`), false],
    ['the same letters otherwise', text('req_0001', '\\u0072eq_0001'), true],
    ['a control character in a text', text('req_0001', 'req_0001\n'), false],
    ['NaN somewhere', text('{', '{"note":NaN,'), false],
    ['Infinity somewhere', text('{', '{"note":Infinity,'), false],
    ['a number that is too large', text('{', '{"note":1e999,'), false],
    ['400 digits', text('{', `{"note":${'9'.repeat(400)},`), false],
    ['blanks', text('{', ' \n\t{ '), true],
    ['a blank that JSON does not know', text('{', '{\u00a0'), false],
    ['a byte order mark', text('{', '\ufeff{'), true],
    ['a comma too many', text(tokens, `${tokens},`), false],
    ['a comment', text('{', '{/* */'), false],
    ['single quotes', text('"v"', "'v'"), false],
    ['something behind it', text('{', '{}{'), false],
    ['a list around it', text('{', '[{'), false],
    ['127 levels in a member that nobody knows', text('{', deep(127)), true],
    ['128 levels', text('{', deep(128)), false],
    ['2,000 levels', text('{', deep(2_000)), false],
    ['nothing', text('{', ''), false],
  ])
}
