import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import {
  isArrowFunction,
  isAwaitExpression,
  isBinaryExpression,
  isBlock,
  isCallExpression,
  isConditionalExpression,
  isExportDeclaration,
  isExpressionStatement,
  isIfStatement,
  isImportDeclaration,
  isInterfaceDeclaration,
  isPostfixUnaryExpression,
  isPrefixUnaryExpression,
  isPropertyAccessExpression,
  isPropertyAssignment,
  isReturnStatement,
  isTypeAliasDeclaration,
  isTypeNode,
} from 'typescript/unstable/ast/is'
import type { Edit } from './edit.ts'

/** In place of this node one of these texts, the first that compiles. */
interface Change {
  readonly node: Node
  readonly texts: readonly string[]
}
type Rule = (node: Node) => readonly Change[]

const nothing: readonly Change[] = []
const instead = (node: Node, ...texts: readonly string[]): Change => ({ node, texts })

const otherOperators: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '==': '!=',
  '!=': '==',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '+=': '-=',
  '-=': '+=',
}
const otherLogic: Readonly<Record<string, string>> = { '&&': '||', '||': '&&' }

/** `a < b` → `a <= b`, and so on; `a && b` → `a || b`, `a` and `b`; `a ?? b` → `a`. */
const operators: Rule = (node) => {
  if (!isBinaryExpression(node)) return nothing
  const { left, operatorToken, right } = node
  const operator = operatorToken.getText()
  const other = otherOperators[operator]
  if (other !== undefined) return [instead(operatorToken, other)]
  if (operator === '??') return [instead(node, left.getText())]
  const logic = otherLogic[operator]
  return logic === undefined
    ? nothing
    : [instead(operatorToken, logic), instead(node, left.getText()), instead(node, right.getText())]
}

/** Other rules already make the opposite of these. */
function isNegatedElsewhere(condition: Node): boolean {
  if (isPrefixUnaryExpression(condition)) return condition.operator === SyntaxKind.ExclamationToken
  if (!isBinaryExpression(condition)) return false
  return /^(?:[!=]==?|&&|\|\|)$/.test(condition.operatorToken.getText())
}

/** A condition is negated; what is done only under a condition is never done. */
const conditions: Rule = (node) => {
  const [condition, isGuard] = isIfStatement(node)
    ? [node.expression, node.elseStatement === undefined]
    : isConditionalExpression(node)
      ? [node.condition, false]
      : [null, false]
  if (condition === null) return nothing
  const negated = isNegatedElsewhere(condition) ? nothing : [instead(condition, `!(${condition.getText()})`)]
  return isGuard ? [...negated, instead(condition, 'false')] : negated
}

const assignment = /^(?:[-+*/%&|^]|\*\*|&&|\|\||\?\?|<<|>>>?)?=$/

function hasEffect(expression: Node): boolean {
  if (isAwaitExpression(expression) || isCallExpression(expression)) return true
  if (isPostfixUnaryExpression(expression)) return true
  return isBinaryExpression(expression) && assignment.test(expression.operatorToken.getText())
}

/** A call, an assignment and what is waited for are left out; what is waited for is also only begun. */
const statements: Rule = (node) => {
  if (!isExpressionStatement(node) || !hasEffect(node.expression)) return nothing
  const { expression } = node
  const begun = isAwaitExpression(expression) ? [instead(expression, expression.expression.getText())] : nothing
  return [instead(node, '{}'), ...begun]
}

/** An empty answer in place of the one that is returned. */
const returns: Rule = (node) => {
  const value = isReturnStatement(node)
    ? node.expression
    : isArrowFunction(node) && !isBlock(node.body)
      ? node.body
      : undefined
  if (value === undefined) return nothing
  const written = value.getText()
  const empty = ['null', 'undefined', 'false', '[]'].filter((text) => text !== written)
  return [instead(value, ...empty), ...(written === 'true' ? nothing : [instead(value, 'true')])]
}

const numbers: Rule = (node) => {
  const big = node.kind === SyntaxKind.BigIntLiteral
  if (!big && node.kind !== SyntaxKind.NumericLiteral) return nothing
  const digits = node.getText().replaceAll(/_|n$/g, '')
  const next = big ? `${BigInt(digits) + 1n}n` : String(Number(digits) + 1)
  const isZero = big ? BigInt(digits) === 0n : Number(digits) === 0
  return isZero ? [instead(node, next)] : [instead(node, next), instead(node, big ? '0n' : '0')]
}

/** Texts with a space are for people; the names of properties and modules are not values. */
const strings: Rule = (node) => {
  if (node.kind !== SyntaxKind.StringLiteral || /^.{2}$|\s/.test(node.getText())) return nothing
  if (isPropertyAssignment(node.parent) && node.parent.name === node) return nothing
  return [instead(node, "''")]
}

const opposites: Rule = (node) => {
  if (node.kind === SyntaxKind.TrueKeyword) return [instead(node, 'false')]
  if (node.kind === SyntaxKind.FalseKeyword) return [instead(node, 'true')]
  if (isPostfixUnaryExpression(node)) {
    const other = node.operator === SyntaxKind.PlusPlusToken ? '--' : '++'
    return [instead(node, `${node.operand.getText()}${other}`)]
  }
  if (!isPrefixUnaryExpression(node) || node.operator !== SyntaxKind.ExclamationToken) return nothing
  return [instead(node, node.operand.getText())]
}

/** A bound that holds from the other side. */
const bounds: Rule = (node) => {
  if (!isPropertyAccessExpression(node)) return nothing
  const name = node.getText()
  if (name === 'Math.min') return [instead(node, 'Math.max')]
  return name === 'Math.max' ? [instead(node, 'Math.min')] : nothing
}

const rules: readonly Rule[] = [operators, conditions, statements, returns, numbers, strings, opposites, bounds]

/** What these are called with is not edited: a changed argument could remove or end something outside of the tests. */
const destructive = /(?:^|\.)(?:rm|rmdir|unlink|exec|execFile|spawn|kill|killMarked)(?:Sync)?$/

function isLeftAlone(node: Node): boolean {
  if (isTypeNode(node) || isInterfaceDeclaration(node) || isTypeAliasDeclaration(node)) return true
  if (isImportDeclaration(node) || isExportDeclaration(node)) return true
  return isCallExpression(node) && destructive.test(node.expression.getText())
}

/** Every edit that begins on a wanted line, in the order of the file. `file` is its path below the root. */
export function editsOf(source: SourceFile, file: string, wanted: (line: number) => boolean): readonly Edit[] {
  const { text } = source
  const lineStarts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]
  const lineOf = (at: number) => lineStarts.findLastIndex((start) => start <= at) + 1
  const edits: Edit[] = []
  const add = ({ node, texts }: Change) => {
    const [start, end] = [node.getStart(source), node.getEnd()]
    const line = lineOf(start)
    if (wanted(line)) edits.push({ file, line, lastLine: lineOf(end), start, end, was: text.slice(start, end), texts })
  }
  const visit = (node: Node): void => {
    if (isExpressionStatement(node)) for (const change of statements(node)) add(change)
    if (isLeftAlone(node)) return
    for (const rule of rules) if (rule !== statements) for (const change of rule(node)) add(change)
    node.forEachChild(visit)
  }
  visit(source)
  return edits
}
