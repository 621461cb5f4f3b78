import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/**
 * Values of every type: made from a seed, and as exact text.
 *
 * <p>A value depends on the seed, the row and the field's id alone, so that a case with a column less has the same values in the
 * others. Most come from a few that repeat, so that keys of deletes meet rows; some are the edges of their type.
 */
final class Values {
  private static final LocalDateTime EPOCH = LocalDateTime.of(1970, 1, 1, 0, 0);
  private static final String[] TEXTS = {
    "", "a", "b", "aa", "é", "\uD83D\uDE00", "\uFFFD", "z\u0000z", "a much longer text than sixteen characters", "Ω/%#? "
  };

  private Values() {}

  static Record row(Types.StructType type, long seed, int row) {
    return struct(type, seed * 1_000_003L + row);
  }

  /** For ORC: Java's reader takes a batch of both zeros for one value that repeats, and reads the first of them in every place. */
  static Object withOneZero(Object value) {
    if (value instanceof Record record) {
      for (int place = 0; place < record.size(); place += 1) {
        record.set(place, withOneZero(record.get(place)));
      }
    } else if (value instanceof List<?> list) {
      List<Object> changed = new ArrayList<>();
      list.forEach(each -> changed.add(withOneZero(each)));
      return changed;
    } else if (value instanceof Map<?, ?> map) {
      Map<Object, Object> changed = new java.util.LinkedHashMap<>();
      map.forEach((key, each) -> changed.put(key, withOneZero(each)));
      return changed;
    }
    return value instanceof Float number && number == 0 ? (Object) 0.0f : value instanceof Double number && number == 0 ? (Object) 0.0 : value;
  }

  private static Record struct(Types.StructType type, long seed) {
    Record record = GenericRecord.create(type);
    for (Types.NestedField field : type.fields()) {
      record.setField(field.name(), field(field, seed));
    }
    return record;
  }

  private static Object field(Types.NestedField field, long seed) {
    long own = (seed ^ (field.fieldId() * 0x9E3779B97F4A7C15L)) * 0xBF58476D1CE4E5B9L;
    Random random = new Random(own ^ (own >>> 31));
    if (field.isOptional() && random.nextInt(5) == 0) {
      return null;
    }
    return value(field.type(), random, own);
  }

  private static Object value(Type type, Random random, long seed) {
    switch (type.typeId()) {
      case STRUCT:
        return struct(type.asStructType(), seed);
      case LIST:
        List<Object> list = new ArrayList<>();
        Types.NestedField element = type.asListType().fields().get(0);
        for (int number = random.nextInt(4); number > 0; number -= 1) {
          list.add(field(element, random.nextLong()));
        }
        return list;
      case MAP:
        Map<String, Object[]> entries = new TreeMap<>();
        Types.NestedField key = type.asMapType().fields().get(0);
        Types.NestedField mapped = type.asMapType().fields().get(1);
        for (int number = random.nextInt(4); number > 0; number -= 1) {
          Object made = field(key, random.nextLong());
          entries.put(text(key.type(), made), new Object[] {made, field(mapped, random.nextLong())});
        }
        Map<Object, Object> map = new java.util.LinkedHashMap<>();
        entries.values().forEach(entry -> map.put(entry[0], entry[1]));
        return map;
      default:
        return primitive(type.asPrimitiveType(), random);
    }
  }

  private static Object primitive(Type.PrimitiveType type, Random random) {
    boolean isEdge = random.nextInt(4) == 0;
    boolean isFree = !isEdge && random.nextInt(4) == 0;
    switch (type.typeId()) {
      case BOOLEAN:
        return random.nextBoolean();
      case INTEGER:
        return isFree ? random.nextInt() : isEdge ? pick(random, 0, Integer.MIN_VALUE, Integer.MAX_VALUE, -1) : random.nextInt(6);
      case LONG:
        return isFree ? random.nextLong() : isEdge ? pick(random, 0L, Long.MIN_VALUE, Long.MAX_VALUE, -1L) : (long) random.nextInt(6);
      case FLOAT:
        return isFree
            ? (float) random.nextGaussian()
            : isEdge
                ? pick(random, Float.NaN, -0.0f, 0.0f, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.MIN_VALUE)
                : (float) random.nextInt(4);
      case DOUBLE:
        return isFree
            ? random.nextGaussian()
            : isEdge
                ? pick(random, Double.NaN, -0.0, 0.0, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, Double.MIN_VALUE)
                : (double) random.nextInt(4);
      case DATE:
        return isFree
            ? LocalDate.ofEpochDay(random.nextInt(60_000) - 30_000)
            : isEdge
                ? pick(random, LocalDate.of(1969, 12, 31), LocalDate.of(1970, 1, 1), LocalDate.of(1, 1, 1), LocalDate.of(9999, 12, 31))
                : LocalDate.of(2024, 2, 27).plusDays(random.nextInt(5));
      case TIME:
        return isEdge
            ? pick(random, LocalTime.MIDNIGHT, LocalTime.of(23, 59, 59, 999_999_000), LocalTime.of(0, 0, 0, 1000))
            : LocalTime.ofSecondOfDay(random.nextInt(isFree ? 86_400 : 4));
      case TIMESTAMP:
        LocalDateTime at = micros(random, isEdge, isFree);
        return ((Types.TimestampType) type).shouldAdjustToUTC() ? at.atOffset(ZoneOffset.UTC) : at;
      case TIMESTAMP_NANO:
        LocalDateTime nano = nanos(random, isEdge, isFree);
        return ((Types.TimestampNanoType) type).shouldAdjustToUTC() ? nano.atOffset(ZoneOffset.UTC) : nano;
      case STRING:
        return isFree ? Integer.toString(random.nextInt(), 36).repeat(1 + random.nextInt(6)) : TEXTS[random.nextInt(isEdge ? TEXTS.length : 4)];
      case UUID:
        return isFree
            ? new UUID(random.nextLong(), random.nextLong())
            : isEdge ? pick(random, new UUID(0, 0), new UUID(-1, -1), new UUID(Long.MIN_VALUE, 0)) : new UUID(1, random.nextInt(4));
      case FIXED:
        byte[] fixed = new byte[((Types.FixedType) type).length()];
        fill(fixed, random, isEdge, isFree);
        return fixed;
      case BINARY:
        byte[] bytes = new byte[isFree ? random.nextInt(30) : random.nextInt(3)];
        fill(bytes, random, isEdge, isFree);
        return ByteBuffer.wrap(bytes);
      case DECIMAL:
        return decimal((Types.DecimalType) type, random, isEdge, isFree);
      default:
        throw new IllegalArgumentException("no values of type " + type);
    }
  }

  private static LocalDateTime micros(Random random, boolean isEdge, boolean isFree) {
    if (isEdge && random.nextInt(8) > 0) { // Arrow reads no ORC files with those beyond the range of nanoseconds
      return pick(random, EPOCH, EPOCH.minus(1, ChronoUnit.MICROS), EPOCH.minusYears(290));
    }
    if (isEdge) {
      return pick(
          random,
          LocalDateTime.of(1, 1, 1, 0, 0),
          LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_999_000),
          LocalDateTime.of(1582, 10, 10, 1, 2, 3, 4000));
    }
    long spread = isFree ? 2_000_000_000_000_000L : 4 * 3_600_000_000L;
    return LocalDateTime.of(2024, 2, 28, 22, 0).plus((long) (random.nextDouble() * spread) - (isFree ? spread / 2 : 0), ChronoUnit.MICROS);
  }

  private static LocalDateTime nanos(Random random, boolean isEdge, boolean isFree) {
    if (isEdge && random.nextInt(8) > 0) {
      return pick(random, EPOCH, EPOCH.minusNanos(1), EPOCH.plusNanos(999), EPOCH.minusYears(290));
    }
    if (isEdge) {
      return pick(random, EPOCH.plusNanos(Long.MAX_VALUE), EPOCH.plusNanos(Long.MIN_VALUE + 1));
    }
    return LocalDateTime.of(2024, 2, 28, 22, 0).plusNanos(isFree ? random.nextLong() / 100 : random.nextInt(4));
  }

  private static BigDecimal decimal(Types.DecimalType type, Random random, boolean isEdge, boolean isFree) {
    BigInteger most = BigInteger.TEN.pow(type.precision()).subtract(BigInteger.ONE);
    BigInteger unscaled =
        isFree
            ? new BigInteger(most.bitLength() - 1, random).multiply(BigInteger.valueOf(random.nextBoolean() ? 1 : -1))
            : isEdge ? pick(random, most, most.negate(), BigInteger.ZERO) : BigInteger.valueOf(random.nextInt(4)).min(most);
    return new BigDecimal(unscaled, type.scale());
  }

  private static void fill(byte[] bytes, Random random, boolean isEdge, boolean isFree) {
    if (isFree) {
      random.nextBytes(bytes);
    } else {
      Arrays.fill(bytes, (byte) (isEdge ? pick(random, 0, 0x7F, 0x80, 0xFF) : random.nextInt(3)));
    }
  }

  @SafeVarargs
  static <T> T pick(Random random, T... choices) {
    return choices[random.nextInt(choices.length)];
  }

  /** Exact: two values have the same text if and only if they are the same. */
  static String text(Type type, Object value) {
    StringBuilder to = new StringBuilder();
    write(type, value, to);
    return to.toString();
  }

  private static void write(Type type, Object value, StringBuilder to) {
    if (value == null) {
      to.append("null");
      return;
    }
    switch (type.typeId()) {
      case STRUCT:
        to.append('{');
        List<Types.NestedField> fields = type.asStructType().fields();
        for (int place = 0; place < fields.size(); place += 1) {
          to.append(place == 0 ? "" : ", ").append(fields.get(place).name()).append(": ");
          write(fields.get(place).type(), ((StructLike) value).get(place, Object.class), to);
        }
        to.append('}');
        break;
      case LIST:
        to.append('[');
        for (Object element : (List<?>) value) {
          to.append(to.charAt(to.length() - 1) == '[' ? "" : ", ");
          write(type.asListType().elementType(), element, to);
        }
        to.append(']');
        break;
      case MAP:
        List<String> entries = new ArrayList<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
          entries.add(text(type.asMapType().keyType(), entry.getKey()) + " -> " + text(type.asMapType().valueType(), entry.getValue()));
        }
        entries.sort(null);
        to.append('<').append(String.join(", ", entries)).append('>');
        break;
      case FLOAT:
        to.append(value).append('/').append(Integer.toHexString(Float.floatToRawIntBits((Float) value)));
        break;
      case DOUBLE:
        to.append(value).append('/').append(Long.toHexString(Double.doubleToRawLongBits((Double) value)));
        break;
      case STRING:
        to.append('"').append(value.toString().replace("\"", "\\\"")).append('"');
        break;
      case FIXED:
        to.append(hex(value instanceof ByteBuffer ? (ByteBuffer) value : ByteBuffer.wrap((byte[]) value)));
        break;
      case BINARY:
        to.append(hex((ByteBuffer) value));
        break;
      case DECIMAL:
        to.append(((BigDecimal) value).unscaledValue()).append('e').append(-((BigDecimal) value).scale());
        break;
      case TIMESTAMP:
      case TIMESTAMP_NANO:
        to.append(value instanceof OffsetDateTime ? ((OffsetDateTime) value).toInstant() : value);
        break;
      default:
        to.append(value);
    }
  }

  static String hex(ByteBuffer buffer) {
    StringBuilder to = new StringBuilder("x");
    ByteBuffer bytes = buffer.duplicate();
    while (bytes.hasRemaining()) {
      to.append(String.format("%02x", bytes.get()));
    }
    return to.toString();
  }

  static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
